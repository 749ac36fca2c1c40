//! The parts of a learner that both models share.

use crate::data::dictionary::Dictionary;
use crate::error::Error;
use crate::learner::sightings::Sightings;
use crate::learner::step::Step;
use crate::parallel::team::TeamHandle;
use crate::params::Params;
use crate::shape::Shape;
use crate::stop::Stop;

/// The dictionary, the parameters, when each pattern was seen, and the team of a learner.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Common {
    pub(crate) dictionary: Dictionary,
    pub(crate) params: Params,
    /// When each pattern was seen.
    pub(crate) sightings: Vec<Sightings>,
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
        Common { dictionary, params, sightings, steps: 0, stop: Stop::default(), team: TeamHandle::default() }
    }

    /// Makes A(t+1) the dictionary, and counts the step.
    pub(crate) fn commit(&mut self, dictionary: Dictionary, step: &Step) {
        self.dictionary = dictionary;
        self.steps = step.step;
        let shown = self.sightings.iter_mut().zip(&step.activity).filter(|(_, fibers)| **fibers > 0);
        shown.for_each(|(sightings, _)| sightings.add(step.step));
    }

    /// Begins to count the sightings of patterns that joined the dictionary.
    pub(crate) fn count_patterns(&mut self) {
        self.sightings.resize(self.dictionary.patterns(), Sightings::default());
    }

    /// Checks that a tensor has the features of the dictionary.
    pub(crate) fn check_features(&self, shape: Shape) -> Result<(), Error> {
        shape.check()?;
        let (tensor, dictionary) = (shape.features, self.dictionary.features());
        if tensor == dictionary { Ok(()) } else { Err(Error::Features { tensor, dictionary }) }
    }
}
