//! Surprising places, with labels.

use serde::{Deserialize, Serialize};
use tensornoodl::{Excess, Surprise};

/// A place whose events are unlikely in a step: a [`Surprise`] with labels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Surprising {
    /// Label of the row.
    pub row: String,
    /// Label of the col.
    pub col: String,
    /// Number of events.
    pub events: f64,
    /// Expected number of events.
    pub expected: f64,
    /// The p-value of the number of events.
    pub p_total: f64,
    /// The p-value of the features of the events, given their number.
    pub p_shape: f64,
    /// Whether it is too unlikely for chance, given the number of places of the step: see [`tensornoodl::significant`].
    pub significant: bool,
    /// The features that are too many, the most striking first.
    pub features: Vec<SurprisingFeature>,
}

/// A feature that is too many at a place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SurprisingFeature {
    /// Label of the feature.
    pub feature: String,
    /// Number of events with this feature.
    pub events: f64,
    /// Expected number of them.
    pub expected: f64,
}

impl Surprising {
    /// Gives a surprise the labels of features, rows and cols. An index without a label is its own label.
    pub(crate) fn new(
        surprise: &Surprise,
        [features, rows, cols]: [&[String]; 3],
        significant: bool,
    ) -> Surprising {
        let label = |labels: &[String], at: usize| labels.get(at).cloned().unwrap_or_else(|| at.to_string());
        let feature = |it: &Excess| SurprisingFeature {
            feature: label(features, it.feature),
            events: it.events,
            expected: it.expected,
        };
        Surprising {
            row: label(rows, surprise.place.row as usize),
            col: label(cols, surprise.place.col as usize),
            events: surprise.events,
            expected: surprise.expected,
            p_total: surprise.p_total,
            p_shape: surprise.p_shape,
            significant,
            features: surprise.features.iter().map(feature).collect(),
        }
    }

    /// The smaller one of the two p-values.
    pub fn p(&self) -> f64 {
        self.p_total.min(self.p_shape)
    }
}
