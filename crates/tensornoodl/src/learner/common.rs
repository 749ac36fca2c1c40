//! The parts of a learner that both models share.

use crate::data::dictionary::Dictionary;
use crate::error::Error;
use crate::learner::retired::{Retired, Returned};
use crate::learner::sightings::{Presence, Sightings};
use crate::learner::step::Step;
use crate::linalg::vector::dot;
use crate::parallel::team::TeamHandle;
use crate::params::Params;
use crate::shape::Shape;
use crate::stop::Stop;

/// A new pattern is a retired one if their |cosine| is above this.
const SAME: f64 = 0.95;

/// The dictionary, the parameters, when each pattern was seen, and the team of a learner.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Common {
    pub(crate) dictionary: Dictionary,
    pub(crate) params: Params,
    /// When each pattern was seen.
    pub(crate) sightings: Vec<Sightings>,
    /// How strongly the steps show each pattern.
    pub(crate) presence: Vec<Presence>,
    /// Patterns that were not seen for long, in the order in which they left the dictionary.
    pub(crate) retired: Vec<Retired>,
    pub(crate) steps: u64,
    #[serde(skip)]
    pub(crate) stop: Stop,
    #[serde(skip)]
    pub(crate) team: TeamHandle,
}

impl Common {
    /// Parts for a dictionary, before the first step.
    pub(crate) fn new(dictionary: Dictionary, params: Params) -> Common {
        let sightings = vec![Sightings::default(); dictionary.patterns()];
        Common {
            presence: vec![Presence::default(); sightings.len()],
            dictionary,
            params,
            sightings,
            retired: Vec::new(),
            steps: 0,
            stop: Stop::default(),
            team: TeamHandle::default(),
        }
    }

    /// Makes A(t+1) the dictionary, and counts the step. `strengths` is how strongly the step shows each pattern, and
    /// `memory` the least number of steps that presence is averaged over.
    pub(crate) fn commit(&mut self, dictionary: Dictionary, step: &Step, strengths: &[f64], memory: f64) {
        self.dictionary = dictionary;
        self.steps = step.step;
        let shown = self.sightings.iter_mut().zip(&step.activity).filter(|(_, fibers)| **fibers > 0);
        shown.for_each(|(sightings, _)| sightings.add(step.step));
        let relative: Vec<f64> = self
            .presence
            .iter()
            .zip(strengths)
            .map(|(presence, strength)| presence.relative(*strength))
            .collect();
        let activity = relative.iter().copied().fold(0.0, f64::max);
        for (pattern, presence) in self.presence.iter_mut().enumerate() {
            presence.add(relative[pattern], activity, self.sightings[pattern], memory);
            if step.activity[pattern] > 0 {
                let times = self.sightings[pattern].times.max(1) as f64;
                presence.usual += (strengths[pattern] - presence.usual) / times;
            }
        }
    }

    /// Begins to count the sightings of patterns that joined the dictionary.
    pub(crate) fn count_patterns(&mut self) {
        self.sightings.resize(self.dictionary.patterns(), Sightings::default());
        self.presence.resize(self.dictionary.patterns(), Presence::default());
    }

    /// Removes patterns, given by increasing number.
    pub(crate) fn remove(&mut self, lost: &[usize]) {
        self.dictionary.remove(lost);
        for &pattern in lost.iter().rev() {
            self.sightings.remove(pattern);
            self.presence.remove(pattern);
        }
    }

    /// The patterns that were not seen for long, by increasing number.
    pub(crate) fn gone(&self) -> Vec<usize> {
        (0..self.presence.len()).filter(|&pattern| self.presence[pattern].is_gone()).collect()
    }

    /// Keeps a pattern of the dictionary among the retired ones. The caller removes it from the dictionary.
    pub(crate) fn retire(&mut self, pattern: usize, statistics: &[f64]) {
        self.retired.push(Retired {
            pattern: self.dictionary.pattern(pattern).to_vec(),
            statistics: statistics.to_vec(),
            sightings: self.sightings[pattern],
            presence: self.presence[pattern],
        });
    }

    /// Finds the retired patterns among the patterns of the dictionary from number `first` on. These continue to count
    /// the sightings of the retired ones. Returns them with the retired patterns, which are retired no more.
    pub(crate) fn recognize(&mut self, first: usize) -> Vec<(Returned, Retired)> {
        let mut returned: Vec<Returned> = Vec::new();
        for pattern in first..self.dictionary.patterns() {
            let free = |retired: &usize| returned.iter().all(|other| other.retired != *retired);
            let cosine = |retired: usize| {
                let (a, b) = (self.dictionary.pattern(pattern), &self.retired[retired].pattern[..]);
                dot(a, b).abs() / (dot(a, a) * dot(b, b)).sqrt()
            };
            let near = (0..self.retired.len()).filter(free).map(|retired| (cosine(retired), retired));
            let nearest = near.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(cosine, _)| *cosine > SAME);
            returned.extend(nearest.map(|(_, retired)| Returned { pattern, retired }));
        }
        let with_pattern = |it: &Returned| (*it, self.retired[it.retired].clone());
        let pairs: Vec<(Returned, Retired)> = returned.iter().map(with_pattern).collect();
        for (it, retired) in &pairs {
            self.sightings[it.pattern] = retired.sightings;
            self.presence[it.pattern] = retired.presence.again();
        }
        returned.sort_by_key(|it| it.retired);
        returned.iter().rev().for_each(|it| drop(self.retired.remove(it.retired)));
        pairs
    }

    /// Checks that a tensor has the features of the dictionary.
    pub(crate) fn check_features(&self, shape: Shape) -> Result<(), Error> {
        shape.check()?;
        let (tensor, dictionary) = (shape.features, self.dictionary.features());
        if tensor == dictionary { Ok(()) } else { Err(Error::Features { tensor, dictionary }) }
    }
}
