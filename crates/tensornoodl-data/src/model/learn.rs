//! Models and how they learn, step by step.

use std::collections::HashSet;
use std::sync::OnceLock;

use tensornoodl::{
    Dictionary, Factors, Groups, Learner, ModelKind, Place, Polish, Sparse, Step, Tensor, significant,
};

use crate::count::events::Events;
use crate::count::query::Query;
use crate::count::recipe::Recipe;
use crate::error::Error;
use crate::model::card::{Card, Record};
use crate::model::choice::model_name;
use crate::model::evidence::{Evidence, Rung};
use crate::model::identity::{Archived, Identities, Identity};
use crate::model::surprising::Surprising;

/// Patterns and factors, with their labels and history.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Labels, settings and history.
    pub card: Card,
    /// The learner, which holds the patterns and continues with the next step.
    pub learner: Learner,
    /// The leading factors of every step so far.
    pub factors: Vec<Factors>,
    /// The factors of further groups that share a pattern in the last step, after the leading group. Empty for counts,
    /// whose groups are [`Model::all_groups`].
    pub blocks: Vec<Factors>,
    /// The groups of counts, once they were asked for.
    pub(crate) groups: OnceLock<Groups>,
    /// Evidence for the number of patterns, if there is any.
    pub evidence: Option<Evidence>,
    /// The identity of each pattern.
    pub(crate) identities: Identities,
    /// The patterns that were lost or retired, in the order in which that happened.
    pub(crate) archive: Vec<Archived>,
}

/// Returns the number of pairs of factors for each pattern of a model, including the leading pair.
pub(crate) fn blocks(kind: ModelKind) -> usize {
    match kind {
        ModelKind::Exact => 3,
        ModelKind::Counts => 1,
    }
}

impl Model {
    /// Creates a model of a counted table, before the first step.
    pub fn new(
        learner: Learner,
        events: &Events,
        recipe: Recipe,
        table: &str,
        query: Query,
        command: &str,
        seed: u64,
    ) -> Model {
        let labels = [&events.features, &events.rows, &events.cols].map(|labels| labels.names.clone());
        let card = Card {
            table: table.into(),
            command: command.into(),
            recipe,
            steps: events.steps.as_ref().map_or(vec!["all".into()], |steps| steps.names.clone()),
            row_groups: events.row_groups.clone(),
            col_groups: events.col_groups.clone(),
            seed,
            tally: events.tally.clone(),
            ..Card::new(query, labels)
        };
        Model::with_card(learner, card)
    }

    /// Creates a model with the given card, before the first step.
    pub fn with_card(learner: Learner, card: Card) -> Model {
        let identities = Identities::new(learner.dictionary().patterns());
        let (factors, blocks, archive) = (Vec::new(), Vec::new(), Vec::new());
        let card = Card { kind: model_name(learner.kind()).into(), ..card };
        let groups = OnceLock::new();
        Model { card, learner, factors, blocks, groups, evidence: None, identities, archive }
    }

    /// Returns the identity of each pattern, in the order of the dictionary.
    pub fn identities(&self) -> &[Identity] {
        &self.identities.list
    }

    /// Gives a pattern a name. An empty name takes its name away.
    ///
    /// # Panics
    /// If the model has no such pattern.
    pub fn set_name(&mut self, pattern: usize, name: &str) {
        self.identities.list[pattern].name = name.into();
    }

    /// Returns the patterns that were lost or retired, in the order in which that happened. A retired pattern that is seen
    /// again leaves the archive, and has its identity and its name again.
    pub fn archive(&self) -> &[Archived] {
        &self.archive
    }

    /// Returns the step, from 0, that found a pattern. It is 0 for the patterns that the model started with.
    pub fn first_step(&self, pattern: usize) -> usize {
        self.factors.iter().position(|factors| pattern < factors.rank_one.len()).unwrap_or(0)
    }

    /// Learns from the tensor of the next step.
    ///
    /// # Errors
    /// [`Error::Tensor`] if the learner refuses the tensor or is stopped. The model is then unchanged.
    pub fn learn(&mut self, tensor: &Tensor<'_>) -> Result<Step, Error> {
        let (before, last_seen) = (self.learner.dictionary().clone(), self.learner.last_seen());
        let retired = self.learner.retired().len();
        let surprises = match self.learner.kind() {
            ModelKind::Exact => Vec::new(),
            ModelKind::Counts => self.learner.surprises(tensor, |value| self.card.recipe.undo(value))?,
        };
        let step = self.learner.learn(tensor)?;
        self.follow(&step, &before, &last_seen, retired);
        let returned = step.returned.iter().map(|it| self.identities.list[it.pattern].id).collect();
        if !step.lost.is_empty() {
            self.factors.iter_mut().for_each(|factors| *factors = without_patterns(factors, &step.lost));
        }
        let rungs: Vec<Rung> = self.learner.ladder().iter().map(Rung::from).collect();
        if !rungs.is_empty() {
            self.evidence = Some(Evidence { rungs, stability: None });
        } else if let Some(evidence) = &mut self.evidence {
            // It was that of the patterns before this step.
            evidence.stability = None;
        }
        self.blocks = step.codes.untangle_blocks(&**self.learner.team(), blocks(self.learner.kind()));
        self.factors.push(self.blocks.remove(0));
        self.groups = OnceLock::new();
        let labels = [&self.card.features[..], &self.card.rows, &self.card.cols];
        self.card.history.push(Record {
            fibers: step.fibers,
            fit: step.fit,
            change: step.change,
            mean_code_size: step.mean_code_size,
            passes: step.passes,
            patterns: self.learner.dictionary().patterns(),
            found: step.found,
            lost: step.lost.len() - step.retired.len(),
            retired: step.retired.len(),
            returned,
            surprises: significant(&surprises).iter().map(|it| Surprising::new(it, labels, true)).collect(),
        });
        Ok(step)
    }

    /// Returns whether the model has one of these rows and one of these cols. If not, it can expect nothing there.
    pub fn knows(&self, rows: &[String], cols: &[String]) -> bool {
        let knows = |known: &[String], labels: &[String]| {
            let known: HashSet<&String> = known.iter().collect();
            labels.iter().any(|label| known.contains(label))
        };
        knows(&self.card.rows, rows) && knows(&self.card.cols, cols)
    }

    /// Returns how unlikely the events of each place of a tensor are as those of the next step, the worst place
    /// first: see [`Learner::surprises`]. `rows` and `cols` are the labels of the tensor, which has the features of
    /// the model. The model does not change.
    ///
    /// # Errors
    /// [`Error::Tensor`] if the model is exact, or if the learner refuses the tensor.
    pub fn surprises(
        &self,
        tensor: &Tensor<'_>,
        rows: &[String],
        cols: &[String],
    ) -> Result<Vec<Surprising>, Error> {
        let mut card = self.card.clone();
        let [rows, cols] = card.place(rows, cols);
        let known = |place: &Place| Place { row: rows[place.row as usize], col: cols[place.col as usize] };
        let places: Vec<Place> = tensor.places().iter().map(known).collect();
        let tensor = tensor.moved(card.rows.len(), card.cols.len(), places)?;
        let all = self.learner.surprises(&tensor, |value| card.recipe.undo(value))?;
        let labels = [&card.features[..], &card.rows, &card.cols];
        let count = significant(&all).len();
        Ok(all.iter().enumerate().map(|(at, it)| Surprising::new(it, labels, at < count)).collect())
    }

    /// Fits patterns, rows and cols together to the only tensor that the model has learned from, none of them
    /// negative. See [`Learner::polish`]. The record of the step stays as it is.
    ///
    /// # Errors
    /// [`Error::Tensor`] if the learner refuses: after more than one step, or if several groups share a pattern. The
    /// model is then unchanged.
    pub fn polish(&mut self, tensor: &Tensor<'_>) -> Result<Polish, Error> {
        let none = Factors { rows: Sparse::new(0), cols: Sparse::new(0), rank_one: Vec::new() };
        let polish = self.learner.polish(tensor, self.factors.last().unwrap_or(&none))?;
        if let Some(last) = self.factors.last_mut() {
            *last = polish.factors.clone();
        }
        // The leading group holds all of each pattern.
        for block in &mut self.blocks {
            let patterns = block.rank_one.len();
            let empty = |rows: usize| {
                let mut empty = Sparse::new(rows);
                (0..patterns).for_each(|_| empty.push(&[]));
                empty
            };
            let (rows, cols) = (empty(block.rows.rows()), empty(block.cols.rows()));
            *block = Factors { rows, cols, rank_one: vec![0.0; patterns] };
        }
        self.groups = OnceLock::new();
        Ok(polish)
    }

    /// Gives the found patterns of a step identities, and archives the lost ones. `before`, `last_seen` and `retired` are
    /// the dictionary, the steps that showed its patterns last, and the number of retired patterns, before the step.
    fn follow(&mut self, step: &Step, before: &Dictionary, last_seen: &[u64], retired: usize) {
        let lost = self.identities.follow(self.learner.dictionary().patterns(), step.found, &step.lost);
        let archived: Vec<usize> = (0..self.archive.len()).filter(|at| self.archive[*at].retired).collect();
        // A model that started from another model does not know what had retired there.
        let unknown = retired.saturating_sub(archived.len());
        let mut back: Vec<usize> = Vec::new();
        for it in &step.returned {
            if let Some(&at) = it.retired.checked_sub(unknown).and_then(|at| archived.get(at)) {
                self.identities.list[it.pattern] = self.archive[at].identity.clone();
                back.push(at);
            }
        }
        back.sort_unstable();
        back.iter().rev().for_each(|at| drop(self.archive.remove(*at)));
        let now = self.card.history.len();
        // A pattern that was found and lost in this step was never in the model.
        let known = step.lost.iter().zip(lost).filter(|(pattern, _)| **pattern < before.patterns());
        for (&pattern, identity) in known {
            let first = self.first_step(pattern);
            let last = (last_seen[pattern].saturating_sub(1) as usize).clamp(first, now);
            let (retired, pattern) = (step.retired.contains(&pattern), before.pattern(pattern).to_vec());
            self.archive.push(Archived { identity, retired, pattern, first, last });
        }
    }
}

/// Returns factors without those of the lost patterns.
fn without_patterns(factors: &Factors, lost: &[usize]) -> Factors {
    let keep = |sparse: &Sparse| {
        let mut kept = Sparse::new(sparse.rows());
        let columns = sparse.columns().enumerate().filter(|(pattern, _)| !lost.contains(pattern));
        columns.for_each(|(_, column)| kept.push(column));
        kept
    };
    let rank_one = factors.rank_one.iter().enumerate().filter(|(pattern, _)| !lost.contains(pattern));
    Factors {
        rows: keep(&factors.rows),
        cols: keep(&factors.cols),
        rank_one: rank_one.map(|(_, share)| *share).collect(),
    }
}
