//! Honest words about a model: warnings with a remedy, patterns that ended, and steps in which something changed.

use std::ops::Range;

use serde::Serialize;
use tensornoodl::ModelKind;

use crate::count::query::Value;
use crate::model::learn::Model;

/// What is doubtful about a model, and what to try.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Warning {
    /// What the warning is about.
    pub kind: WarningKind,
    /// What is doubtful: a sentence without a period.
    pub text: String,
    /// What to try: a sentence without a period.
    pub remedy: String,
}

/// What a warning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WarningKind {
    /// There is one pattern, or none.
    FewPatterns,
    /// There are nearly as many patterns as features.
    ManyPatterns,
    /// Most patterns are a single feature.
    SingleFeatures,
    /// Patterns occur at no place.
    Unused,
    /// The patterns explain less than a third.
    Unexplained,
    /// Learning with other seeds finds other patterns.
    Seeds,
    /// The halves of the places have different patterns.
    Halves,
}

/// A pattern that the data has not shown for an unusually long time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unseen {
    /// Index of the pattern.
    pub pattern: usize,
    /// The last step, from 0, that showed the pattern. None if no step of this table did.
    pub step: Option<usize>,
}

/// A step of which the patterns explained far less than of the steps before it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fall {
    /// The step, from 0.
    pub step: usize,
    /// The share that the patterns explained of the step, from 0 to 1.
    pub explained: f64,
    /// The share that they usually explained of the steps before: the median.
    pub usual: f64,
}

/// There are nearly as many patterns as features from this ratio on.
const MANY: f64 = 2.0 / 3.0;

/// A pattern is a single feature if the feature has this share of it: of its sum for counts, else of its energy.
const SINGLE: f64 = 0.9;

/// Below this explained share, the patterns say next to nothing.
const NOTHING: f64 = 0.01;

/// Warns below this explained share.
const EXPLAINED: f64 = 1.0 / 3.0;

/// The exact model recovers the patterns of data that follows it, however many they are. It does so below this relative
/// error.
const EXACT_FIT: f64 = 1e-3;

/// Warns if the patterns of other seeds agree less than this.
const SEEDS_AGREE: f64 = 0.9;

/// Warns if the patterns of halves agree less than this.
const HALVES_AGREE: f64 = 0.8;

/// Number of steps that a step is compared with: at least, and at most.
const STEPS_BEFORE: Range<usize> = 5..20;

/// A fall is at least this large, as a difference of shares.
const LEAST_FALL: f64 = 0.2;

/// Number of falls that are told one by one.
const MOST_FALLS: usize = 3;

/// A fall is at least this many standard deviations large, as the median of absolute deviations estimates them.
const FALL: f64 = 6.0;

impl Model {
    /// Returns the share that the patterns explain, from 0 to 1: the mean over the steps, weighted by their number of
    /// places. See [`Model::measure`].
    pub fn explained(&self) -> f64 {
        self.explained_in(0..self.card.history.len())
    }

    fn explained_in(&self, steps: Range<usize>) -> f64 {
        let (sum, fibers) = self.card.history[steps].iter().fold((0.0, 0.0), |(sum, fibers), record| {
            (sum + record.explained() * record.fibers as f64, fibers + record.fibers as f64)
        });
        if fibers > 0.0 { sum / fibers } else { 0.0 }
    }

    /// Names what the explained share is a share of: the energy, or for counts the deviance from the overall mean.
    pub fn measure(&self) -> &'static str {
        if self.counts() { "deviance" } else { "energy" }
    }

    fn counts(&self) -> bool {
        self.learner.kind() == ModelKind::Counts
    }

    /// Returns what is doubtful about the model, and what to try.
    pub fn warnings(&self) -> Vec<Warning> {
        let warnings = [
            self.few_patterns(),
            self.many_patterns(),
            self.single_features(),
            self.unused(),
            self.unexplained(),
            self.unstable_seeds(),
            self.unstable_halves(),
        ];
        warnings.into_iter().flatten().collect()
    }

    /// What to try if the exact model fails on a table whose cells count events.
    fn try_counts(&self) -> Option<&'static str> {
        let counts = self.card.query.value == Value::Count && self.card.query.average_over.is_none();
        (counts && !self.counts())
            .then_some("Try --model counts without a recipe, because the cells count events")
    }

    /// What to try where places have too few events.
    fn more_events(&self) -> &'static str {
        match self.card.history.len() {
            0 | 1 => "Try rows and cols that have more events at each place",
            _ => "Try without --step, or rows and cols that have more events at each place",
        }
    }

    fn few_patterns(&self) -> Option<Warning> {
        let text = match self.learner.dictionary().patterns() {
            0 => "No pattern was found",
            1 => "There is a single pattern, so that all places look alike",
            _ => return None,
        };
        let remedy = match self.counts() {
            true => self.more_events(),
            false => self
                .try_counts()
                .unwrap_or("Try --patterns N, which takes N patterns that are no clearer than chance"),
        };
        Some(Warning { kind: WarningKind::FewPatterns, text: text.into(), remedy: remedy.into() })
    }

    fn many_patterns(&self) -> Option<Warning> {
        let (m, n) = (self.learner.dictionary().patterns(), self.learner.dictionary().features());
        let exact = !self.counts() && self.card.history.last().is_some_and(|record| record.fit < EXACT_FIT);
        if m < 3 || (m as f64) < MANY * n as f64 || exact {
            return None;
        }
        let fewer = format!("Try --patterns {} or fewer, or an axis with more features", n.div_ceil(2));
        let remedy = self.try_counts().map_or(fewer, str::to_owned);
        let text =
            format!("{m} patterns for {n} features describe the features and not what they have in common");
        Some(Warning { kind: WarningKind::ManyPatterns, text, remedy })
    }

    fn single_features(&self) -> Option<Warning> {
        let dictionary = self.learner.dictionary();
        let m = dictionary.patterns();
        let share = |a: &f64| if self.counts() { *a } else { a * a };
        let single = |i: &usize| dictionary.pattern(*i).iter().map(share).fold(0.0, f64::max) >= SINGLE;
        let count = (0..m).filter(single).count();
        if m < 2 || dictionary.features() < 3 || 2 * count <= m {
            return None;
        }
        let fewer = format!(
            "Try --patterns {} or fewer, or an axis whose features occur together at the same place",
            m.div_ceil(2)
        );
        let remedy = self.try_counts().map_or(fewer, str::to_owned);
        let text = format!("{count} of {m} patterns are a single feature");
        Some(Warning { kind: WarningKind::SingleFeatures, text, remedy })
    }

    fn unused(&self) -> Option<Warning> {
        let last_seen = self.learner.last_seen();
        let unused = last_seen.iter().filter(|step| **step == 0).count();
        // Patterns that the last step found are used from the next step on.
        let found = self.card.history.last().map_or(0, |record| record.found);
        if unused <= found || self.card.history.is_empty() {
            return None;
        }
        let m = last_seen.len();
        let verb = if unused == 1 { "occurs" } else { "occur" };
        let text = format!("{unused} of {m} patterns {verb} at no place");
        Some(Warning {
            kind: WarningKind::Unused,
            text,
            remedy: format!("Try --patterns {} or fewer", m - unused),
        })
    }

    fn unexplained(&self) -> Option<Warning> {
        let steps = self.card.history.len();
        // A stream knows less in its first steps.
        let explained = self.explained_in(steps / 2..steps);
        // A single pattern of counts is the mean, which explains nothing.
        if steps == 0 || explained >= EXPLAINED || self.learner.dictionary().patterns() < 2 {
            return None;
        }
        let text = format!("The patterns explain only {:.0} % of the {}", 100.0 * explained, self.measure());
        let remedy = match self.counts() {
            true => self.more_events(),
            false => {
                "Try another number of patterns; noodl check --model exact --evidence shows what each number explains"
            }
        };
        Some(Warning { kind: WarningKind::Unexplained, text, remedy: remedy.into() })
    }

    fn unstable_seeds(&self) -> Option<Warning> {
        let stability = self.evidence.as_ref()?.stability.as_ref()?;
        let agreement = stability.seeds_agreement().filter(|agreement| *agreement < SEEDS_AGREE)?;
        let text = format!("Other seeds find other patterns: their agreement is {agreement:.2}");
        let remedy = "Trust only the patterns that come again (noodl compare)";
        Some(Warning { kind: WarningKind::Seeds, text, remedy: remedy.into() })
    }

    fn unstable_halves(&self) -> Option<Warning> {
        let stability = self.evidence.as_ref()?.stability.as_ref()?;
        let agreement = Some(stability.halves_agreement).filter(|agreement| *agreement < HALVES_AGREE)?;
        let text =
            format!("The halves of the places have different patterns: their agreement is {agreement:.2}");
        let remedy = "Try more data, and trust the patterns for this table only";
        Some(Warning { kind: WarningKind::Halves, text, remedy: remedy.into() })
    }

    /// Returns the patterns that the data has not shown for an unusually long time, as
    /// [`Learner::overdue`](tensornoodl::Learner::overdue) decides.
    pub fn unseen(&self) -> Vec<Unseen> {
        let last_seen = self.learner.last_seen();
        // A model that started from another model counts the steps of that model, too.
        let before = self.learner.steps().saturating_sub(self.card.history.len() as u64);
        let step = |pattern: usize| last_seen[pattern].checked_sub(before + 1).map(|step| step as usize);
        self.learner.overdue().into_iter().map(|pattern| Unseen { pattern, step: step(pattern) }).collect()
    }

    /// Returns whether the patterns explained far less of a step, from 0, than of the steps before it. Of several such
    /// steps in a row it is the first one.
    ///
    /// # Panics
    /// If the model has not learned from this step.
    pub fn fall(&self, step: usize) -> Option<Fall> {
        let fall = self.low(step)?;
        let goes_on = step > 0 && self.low(step - 1).is_some();
        (!goes_on).then_some(fall)
    }

    /// Returns the step as a fall if the patterns explained far less of it than of the steps before.
    fn low(&self, step: usize) -> Option<Fall> {
        let history = &self.card.history;
        let share = |step: usize| history[step].explained();
        let before = (0..step).rev().filter(|step| history[*step].fibers > 0).take(STEPS_BEFORE.end);
        let before: Vec<usize> = before.collect();
        if before.len() < STEPS_BEFORE.start || history[step].fibers == 0 {
            return None;
        }
        let usual = median(before.iter().map(|step| share(*step)).collect());
        // The share of a step with few places varies more, like a mean over its places.
        let weight = |step: usize| (history[step].fibers as f64).sqrt();
        let deviations = before.iter().map(|step| (share(*step) - usual).abs() * weight(*step)).collect();
        // 1.4826 makes the median of absolute deviations the standard deviation of a normal distribution.
        let deviation = 1.4826 * median(deviations) / weight(step);
        let explained = share(step);
        let low = usual - explained > LEAST_FALL.max(FALL * deviation);
        low.then_some(Fall { step, explained, usual })
    }

    /// Returns the steps of which the patterns explained far less than of the steps before: something changed.
    pub fn falls(&self) -> Vec<Fall> {
        (0..self.card.history.len()).filter_map(|step| self.fall(step)).collect()
    }

    /// Returns what "not seen" means for a pattern, such as "not seen since week 3". None if the pattern is still seen.
    pub fn not_seen(&self, pattern: usize) -> Option<String> {
        let unseen = self.unseen().into_iter().find(|unseen| unseen.pattern == pattern)?;
        Some(match unseen.step {
            Some(step) => format!("not seen since {}", self.card.steps[step]),
            None => "not seen in this table".into(),
        })
    }

    /// Returns a sentence, without a period, about the retired patterns. None if there are none.
    fn retired(&self) -> Option<String> {
        let count = self.archive().iter().filter(|it| it.retired).count();
        let last = self.card.history.iter().rposition(|record| record.retired > 0).filter(|_| count > 0)?;
        let (were, each) = if count == 1 { ("was", "It returns") } else { ("were", "Each of them returns") };
        let (patterns, step) = (plural(count, "pattern"), &self.card.steps[last]);
        Some(format!(
            "{patterns} that {were} not seen for long left the dictionary, the last time in {step}. {each} when it is \
             seen again"
        ))
    }

    /// Returns sentences, without a period, about the latest patterns that had left the dictionary and returned.
    fn returned(&self) -> Vec<String> {
        let number = |id: u64| self.identities().iter().position(|identity| identity.id == id);
        let steps = self.card.history.iter().zip(&self.card.steps).rev();
        let returned = steps.flat_map(|(record, step)| record.returned.iter().map(move |id| (*id, step)));
        let sentence = |(id, step): (u64, &String)| {
            Some(format!("pattern {} had left the dictionary, and returned in {step}", number(id)? + 1))
        };
        let mut sentences: Vec<String> = returned.filter_map(sentence).take(MOST_FALLS).collect();
        sentences.reverse();
        sentences
    }

    /// Returns sentences, without a period, about the latest steps in which something changed, about patterns that are not
    /// seen any more, and about patterns that retired or returned.
    pub fn news(&self) -> Vec<String> {
        let name = |step: usize| self.card.steps[step].as_str();
        let fall = |fall: Fall| {
            format!(
                "in {} the patterns explained {:.0} % instead of {:.0} %: something changed",
                name(fall.step),
                100.0 * fall.explained,
                100.0 * fall.usual
            )
        };
        let unseen =
            |pattern: usize| Some(format!("pattern {} was {}", pattern + 1, self.not_seen(pattern)?));
        let falls = self.falls();
        let earlier = falls.len().saturating_sub(MOST_FALLS);
        let more = (earlier > 0).then(|| format!("the same happened {}, before that", times(earlier)));
        let latest = falls.into_iter().skip(earlier).map(fall);
        let patterns = 0..self.learner.dictionary().patterns();
        let unseen = patterns.filter_map(unseen);
        latest.chain(more).chain(unseen).chain(self.retired()).chain(self.returned()).collect()
    }

    /// Says that the model has no pattern, or that its patterns explain next to nothing, and what to try. None if they
    /// explain something.
    pub fn nothing(&self) -> Option<String> {
        let (patterns, steps) = (self.learner.dictionary().patterns(), self.card.history.len());
        let explained = self.explained_in(steps / 2..steps);
        if steps == 0 || patterns > 0 && explained >= NOTHING {
            return None;
        }
        let remedy = self.few_patterns().or_else(|| self.unexplained())?.remedy;
        Some(match patterns {
            0 => format!("No pattern was found. {remedy}"),
            _ => {
                let (share, measure) = (100.0 * explained, self.measure());
                format!("The patterns explain next to nothing: {share:.1} % of the {measure}. {remedy}")
            }
        })
    }

    /// Says why the model has fewer patterns than were asked for. None if it has as many.
    pub fn shortfall(&self, asked: usize) -> Option<String> {
        let patterns = self.learner.dictionary().patterns();
        if patterns >= asked {
            return None;
        }
        let features = self.card.features.len();
        let places = self.card.history.iter().map(|record| record.fibers).max().unwrap_or(0);
        let limit = |count: usize, noun: &str| {
            let (count, many) = (plural(count, noun), plural(count, "pattern"));
            format!("the table has {count}, so there are at most {many}")
        };
        let reason = match self.counts() {
            true if features < asked => limit(features, "feature"),
            true if places < asked && self.card.history.len() < 2 => limit(places, "place"),
            true => "no step has enough places for more patterns".into(),
            false => "no further pattern is shared by two places that the others do not explain".into(),
        };
        let were = if patterns == 1 { "was" } else { "were" };
        Some(format!("{reason}: {} {were} learned, not {asked}", plural(patterns, "pattern")))
    }
}

fn times(count: usize) -> String {
    if count == 1 { "once".into() } else { format!("{count} times") }
}

fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Returns the median; the upper one of two.
fn median(mut values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::card::{Card, Record};
    use crate::model::evidence::Evidence;
    use crate::model::stability::{Repeat, Stability};
    use crate::{Axis, Query};
    use tensornoodl::{Dictionary, DiscoverParams, Learner, Params, Shape, Tensor};

    fn query() -> Query {
        let axis = |name: &str| Axis::Column(name.into());
        Query {
            feature: axis("f"),
            row: axis("r"),
            col: axis("c"),
            step: Some(axis("t")),
            value: Value::Count,
            average_over: None,
            keep_rows: None,
            max_features: None,
            filters: Vec::new(),
            square: false,
            names: None,
            groups: None,
        }
    }

    /// A model of the exact kind with these patterns of n features, and these explained shares of its steps.
    fn model(n: usize, patterns: Vec<f64>, explained: &[f64]) -> Model {
        let names = |count: usize| (0..count).map(|at| at.to_string()).collect::<Vec<String>>();
        let dictionary = Dictionary::from_columns(n, patterns).unwrap();
        let mut model = Model::with_card(
            Learner::new(dictionary, Params::default()).unwrap(),
            Card::new(query(), [names(n), names(1), names(1)]),
        );
        model.card.steps = (1..=explained.len()).map(|step| format!("week {step}")).collect();
        let record = |explained: &f64| Record {
            fibers: 10,
            fit: (1.0 - explained).sqrt(),
            change: 0.0,
            mean_code_size: 1.0,
            passes: 1,
            patterns: 1,
            found: 0,
            lost: 0,
            retired: 0,
            returned: Vec::new(),
            surprises: Vec::new(),
        };
        model.card.history = explained.iter().map(record).collect();
        model
    }

    fn kinds(model: &Model) -> Vec<WarningKind> {
        let kinds = model.warnings().into_iter().map(|warning| warning.kind);
        kinds.filter(|kind| *kind != WarningKind::Unused).collect()
    }

    fn unit(n: usize, at: &[usize]) -> Vec<f64> {
        (0..n).map(|feature| f64::from(u8::from(at.contains(&feature)))).collect()
    }

    #[test]
    fn doubtful_numbers_of_patterns_are_named() {
        let pairs = [unit(9, &[0, 1]), unit(9, &[2, 3]), unit(9, &[4, 5])].concat();
        assert_eq!(kinds(&model(9, pairs.clone(), &[0.9])), []);
        assert_eq!(kinds(&model(9, unit(9, &[0, 1]), &[0.9])), [WarningKind::FewPatterns]);
        let single = (0..9).flat_map(|at| unit(9, &[at])).collect::<Vec<f64>>();
        let both = [WarningKind::ManyPatterns, WarningKind::SingleFeatures];
        assert_eq!(kinds(&model(9, single.clone(), &[0.9])), both);
        // Half of the patterns is not most of them.
        let half = [unit(9, &[0]), unit(9, &[1]), unit(9, &[2, 3]), unit(9, &[4, 5])].concat();
        assert_eq!(kinds(&model(9, half, &[0.9])), []);
        // Data that follows the exact model may have any number of patterns.
        let overcomplete = (0..6).flat_map(|at| unit(6, &[at, (at + 1) % 6])).collect::<Vec<f64>>();
        assert_eq!(kinds(&model(6, overcomplete.clone(), &[0.9])), [WarningKind::ManyPatterns]);
        assert_eq!(kinds(&model(6, overcomplete, &[1.0])), []);
    }

    #[test]
    fn little_explained_is_said_but_not_of_the_first_steps() {
        let pairs = [unit(9, &[0, 1]), unit(9, &[2, 3])].concat();
        assert_eq!(kinds(&model(9, pairs.clone(), &[0.3])), [WarningKind::Unexplained]);
        assert_eq!(kinds(&model(9, pairs.clone(), &[0.1, 0.1, 0.8, 0.9])), []);
        let late = model(9, pairs, &[0.9, 0.9, 0.1, 0.2]);
        assert_eq!(kinds(&late), [WarningKind::Unexplained]);
        let warning = &late.warnings()[0];
        assert!(
            late.warnings().iter().any(|it| it.text == "The patterns explain only 15 % of the energy"),
            "{warning:?}"
        );
        let worse = model(9, late.learner.dictionary().values().to_vec(), &[-0.5]);
        assert_eq!(worse.explained(), 0.0);
    }

    #[test]
    fn disagreement_is_said() {
        let mut model = model(9, [unit(9, &[0, 1]), unit(9, &[2, 3])].concat(), &[0.9]);
        let repeat = |agreement: f64| Repeat { seed: 1, patterns: 2, agreement };
        let mut set = |seeds: &[f64], halves_agreement: f64| {
            let seeds = seeds.iter().map(|agreement| repeat(*agreement)).collect();
            let stability = Some(Stability { seeds, halves: [2, 3], halves_agreement });
            model.evidence = Some(Evidence { rungs: Vec::new(), stability });
            kinds(&model)
        };
        assert_eq!(set(&[0.95, 0.93], 0.85), []);
        assert_eq!(set(&[0.95, 0.8], 0.85), [WarningKind::Seeds]);
        assert_eq!(set(&[], 0.75), [WarningKind::Halves]);
        let words = model.evidence.unwrap().stability.unwrap().sentence();
        assert_eq!(words, "halves agree: 0.75 (2 and 3 patterns)");
    }

    #[test]
    fn a_fall_is_told_once_and_noise_is_not() {
        let steps = [0.85, 0.8, 0.9, 0.83, 0.88, 0.84, 0.86, 0.12, 0.2, 0.8, 0.85];
        let changed = model(9, unit(9, &[0, 1]), &steps);
        let falls = changed.falls();
        assert_eq!(falls.iter().map(|fall| fall.step).collect::<Vec<_>>(), [7]);
        assert!(
            (falls[0].explained - 0.12).abs() < 1e-9 && (falls[0].usual - 0.85).abs() < 1e-9,
            "{falls:?}"
        );
        assert_eq!(
            changed.news(),
            ["in week 8 the patterns explained 12 % instead of 85 %: something changed"]
        );
        // Steps that vary much must fall further, and a few steps are not enough to know what is usual.
        let noisy = model(9, unit(9, &[0, 1]), &[0.9, 0.5, 0.8, 0.4, 0.7, 0.95, 0.6, 0.3]);
        assert_eq!(noisy.falls(), []);
        assert_eq!(model(9, unit(9, &[0, 1]), &[0.9, 0.9, 0.9, 0.9, 0.1]).falls(), []);
        assert_eq!(model(9, unit(9, &[0, 1]), &[0.9, 0.9, 0.9, 0.9, 0.9, 0.1]).falls().len(), 1);
    }

    /// A learner of counts that sees two patterns for ten steps, and the first alone after that.
    #[test]
    fn a_pattern_that_ends_is_named_with_its_last_step() {
        let shape = Shape { features: 4, rows: 6, cols: 2 };
        let discover = DiscoverParams { min_patterns: 2, max_patterns: Some(2), ..DiscoverParams::default() };
        let names = |count: usize| (0..count).map(|at| at.to_string()).collect::<Vec<String>>();
        let mut model = Model::with_card(
            Learner::for_counts(4, Params::default(), discover).unwrap(),
            Card::new(query(), [names(4), names(6), names(2)]),
        );
        model.card.steps = (1..=20).map(|step| format!("week {step}")).collect();
        for step in 0..20 {
            let mut entries: Vec<(usize, usize, usize, f64)> =
                (0..6).flat_map(|row| [(0, row, 0, 8.0), (1, row, 0, 6.0)]).collect();
            if step < 10 {
                entries.extend((0..6).flat_map(|row| [(2, row, 1, 7.0), (3, row, 1, 9.0)]));
            }
            // A stray event looks like the pattern that ended.
            entries.push((3, step % 6, 0, 1.0));
            model.learn(&Tensor::from_triplets(shape, &entries).unwrap()).unwrap();
        }
        let ended = (0..2).find(|i| model.learner.dictionary().pattern(*i)[3] > 0.3).unwrap();
        assert_eq!(model.unseen(), [Unseen { pattern: ended, step: Some(9) }]);
        assert!(model.news().contains(&format!("pattern {} was not seen since week 10", ended + 1)));
    }

    #[test]
    fn a_shortfall_has_a_reason() {
        let exact = model(9, unit(9, &[0, 1]), &[0.9]);
        assert_eq!(exact.shortfall(1), None);
        let reason = "no further pattern is shared by two places that the others do not explain";
        assert_eq!(exact.shortfall(2), Some(format!("{reason}: 1 pattern was learned, not 2")));
    }
}
