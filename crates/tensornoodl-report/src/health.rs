//! The health section of the page: a few measures of the model, each rated good, check or bad, with advice.

use serde::Serialize;
use tensornoodl_data::Model;

use crate::pattern::mean_of_positive;

/// One measure of the model's health.
#[derive(Serialize)]
pub(crate) struct Light {
    /// Rating: good, check or bad. The style sheet of the page has a class for each.
    state: &'static str,
    name: &'static str,
    text: String,
    /// What to do if the rating is not good.
    advice: &'static str,
}

/// Returns the measures that the page shows.
pub(crate) fn lights(model: &Model) -> Vec<Light> {
    let mut lights = vec![explained(model), distinct(model), one_group(model), active(model)];
    // With a single tensor there is only the first step, and its change says nothing about convergence.
    if model.card.history.len() > 1 {
        lights.push(converged(model));
    }
    lights
}

/// Rates a value against two thresholds. If `good < bad`, small values are good.
fn rate(value: f64, good: f64, bad: f64) -> &'static str {
    let (value, good, bad) = if good > bad { (value, good, bad) } else { (-value, -good, -bad) };
    if value >= good {
        "good"
    } else if value >= bad {
        "check"
    } else {
        "bad"
    }
}

fn explained(model: &Model) -> Light {
    let explained = model.explained();
    Light {
        state: rate(explained, 2.0 / 3.0, 1.0 / 3.0),
        name: "Explained share",
        text: format!(
            "The patterns explain {:.0} % of the {} of the data",
            100.0 * explained,
            model.measure()
        ),
        advice: "The rest is chance, or something that these patterns do not have.",
    }
}

fn distinct(model: &Model) -> Light {
    let dictionary = model.learner.dictionary().with_unit_lengths();
    let largest_cosine = dictionary.incoherence() / (dictionary.features() as f64).sqrt();
    Light {
        state: rate(largest_cosine, 0.5, 0.9),
        name: "Distinct patterns",
        text: format!("The two most similar patterns have a cosine of {largest_cosine:.2}"),
        advice: "If two patterns are nearly equal, chance decides which of them gets a row or col. Try fewer patterns.",
    }
}

fn one_group(model: &Model) -> Light {
    let shares = model.factors.iter().flat_map(|factors| factors.rank_one.iter().copied());
    let rank_one = mean_of_positive(shares);
    Light {
        state: rate(rank_one, 0.8, 0.4),
        name: "One group per pattern",
        text: format!("The leading group holds {:.0} % of its pattern on average", 100.0 * rank_one),
        advice: "Low: several groups share a pattern (s2/s1 on its card is near 1), while the model assumes one group per pattern. \
                 The patterns are correct nevertheless; look at all groups of a card, not only at the first.",
    }
}

fn active(model: &Model) -> Light {
    let overdue = model.learner.overdue().len();
    Light {
        state: if overdue == 0 { "good" } else { "check" },
        name: "Active patterns",
        text: match overdue {
            0 => "Every pattern still occurs in the data".into(),
            1 => "1 pattern has not occurred for an unusually long time".into(),
            _ => format!("{overdue} patterns have not occurred for an unusually long time"),
        },
        advice: "A pattern that no longer occurs may belong to the past.",
    }
}

fn converged(model: &Model) -> Light {
    let change = model.card.history.last().map_or(0.0, |record| record.change);
    Light {
        // A change of 0.1 corresponds to a cosine of 0.995 between a pattern before and after the step.
        state: rate(change, 0.1, 0.3),
        name: "Convergence",
        text: format!("The last step changed the patterns by {:.2} %", 100.0 * change),
        advice: "The patterns still change: use more passes or more steps.",
    }
}
