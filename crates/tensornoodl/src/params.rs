//! Parameters: defaults, ranges, and the one function that makes all messages about them.

use crate::error::Error;

/// How the codes of a fiber are found, stage I.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum Solver {
    /// The limit of iterative hard thresholding, solved for directly on the support and proved to
    /// be the limit. A fiber for which the proof fails is iterated as with [`Solver::Iht`].
    #[default]
    Direct,
    /// Iterative hard thresholding, step by step as in the paper (alg:coeff_iht).
    Iht,
}

/// How the dictionary moves, stage III.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub enum Rule {
    /// Recursive least squares with an error variance per pattern. Nothing to tune.
    #[default]
    Adaptive,
    /// The paper's gradient step with one step size for all patterns (eq:apx_grad).
    Paper {
        /// Step size eta_A, of the order of patterns / mean code size (A.5).
        eta_a: f64,
    },
}

/// Which fibers stage III learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum Samples {
    /// All non-zero fibers, as in the paper's experiments.
    #[default]
    All,
    /// Only the places (j, j): the independent set of the paper's analysis (eq:emp_grad_est).
    Independent,
}

/// How often each tensor is used before the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Passes {
    /// This many times, at least once.
    Fixed(usize),
    /// As long as another pass still brings the dictionary nearer. Needs [`Rule::Adaptive`].
    Auto,
    /// Until the tensor has nothing more to tell, for one that is all there is: as [`Passes::Auto`], and on while each pass leaves
    /// less than three quarters of what the one before left. Needs [`Rule::Adaptive`].
    Exhaust,
}

/// What a [`Learner`](crate::Learner) is told. The defaults are the paper's values where it has
/// some, and suppose codes of about unit size, as the paper does.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Params {
    /// Stage I solver.
    pub solver: Solver,
    /// Step size of iterative hard thresholding, eta_x, in (0, 1).
    pub eta_x: f64,
    /// Smallest code kept by iterative hard thresholding, tau > 0.
    pub tau: f64,
    /// Smallest magnitude a true code can have, the paper's C > 0; codes start from the entries
    /// of A'y of at least half of it.
    pub code_floor: f64,
    /// Most steps of iterative hard thresholding, the paper's R.
    pub iht_steps: usize,
    /// Iterative hard thresholding stops once no entry changes by more than this share of the
    /// largest one and the support stays; with 0 it makes `iht_steps` steps.
    pub code_tolerance: f64,
    /// Stage III rule.
    pub rule: Rule,
    /// Fibers that stage III learns from.
    pub samples: Samples,
    /// Passes over each tensor.
    pub passes: Passes,
    /// What the adaptive step forgets with every tensor of what it has learned, in [0, 1). A pattern that jumps, or
    /// turns fast enough to be seen against the noise, is followed anyway; this is for slow drift.
    pub forgetting: f64,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            solver: Solver::Direct,
            eta_x: 0.2,
            tau: 0.1,
            code_floor: 1.0,
            iht_steps: 1000,
            code_tolerance: 1e-14,
            rule: Rule::Adaptive,
            samples: Samples::All,
            passes: Passes::Fixed(1),
            forgetting: 0.0,
        }
    }
}

impl Params {
    /// The method as the paper has it: its iteration, its step, and its values for codes of unit size, in the
    /// units of the data, so for [`Learner::new`](crate::Learner::new).
    pub fn paper(eta_a: f64) -> Params {
        Params { solver: Solver::Iht, rule: Rule::Paper { eta_a }, ..Params::default() }
    }

    /// Checks every range. [`Learner::new`](crate::Learner::new) calls it, so that no unchecked
    /// parameter reaches the loop.
    pub fn check(&self) -> Result<(), Error> {
        within("eta_x", self.eta_x, Above(0.0), Below(1.0))?;
        within("tau", self.tau, Above(0.0), Below(f64::INFINITY))?;
        // As large and as small as values may be, so that squares and ratios stay finite.
        within("code_floor", self.code_floor, AtLeast(1e-100), AtMost(1e100))?;
        within("iht_steps", self.iht_steps as f64, AtLeast(1.0), Below(f64::INFINITY))?;
        within("code_tolerance", self.code_tolerance, AtLeast(0.0), Below(1.0))?;
        within("forgetting", self.forgetting, AtLeast(0.0), Below(1.0))?;
        if let Rule::Paper { eta_a } = self.rule {
            within("eta_a", eta_a, Above(0.0), Below(f64::INFINITY))?;
        }
        match self.passes {
            Passes::Fixed(passes) => within("passes", passes as f64, AtLeast(1.0), Below(f64::INFINITY)),
            Passes::Auto | Passes::Exhaust if self.rule != Rule::Adaptive => Err(Error::Parameter {
                name: "passes",
                value: "auto".into(),
                rule: "a number with the paper's step: only the adaptive step knows when a \
                       further pass no longer helps"
                    .into(),
            }),
            Passes::Auto | Passes::Exhaust => Ok(()),
        }
    }
}

/// Lower end of a range.
pub(crate) enum Low {
    AtLeast(f64),
    Above(f64),
}
/// Upper end of a range.
pub(crate) enum High {
    AtMost(f64),
    Below(f64),
}
pub(crate) use High::{AtMost, Below};
pub(crate) use Low::{Above, AtLeast};

/// Refuses a value outside its range, and NaN with it: no comparison with NaN is true.
pub(crate) fn within(name: &'static str, value: f64, low: Low, high: High) -> Result<(), Error> {
    // Whole numbers as such, and no 300 digits for a huge or tiny one.
    let written = |value: f64| {
        let plain = value == 0.0 || (1e-5..1e15).contains(&value.abs()) || !value.is_finite();
        if plain { format!("{value}") } else { format!("{value:e}") }
    };
    let (low_holds, low_text) = match low {
        AtLeast(bound) => (value >= bound, format!("at least {}", written(bound))),
        Above(bound) => (value > bound, format!("above {}", written(bound))),
    };
    let (high_holds, high_text) = match high {
        Below(f64::INFINITY) => (value < f64::INFINITY, "finite".into()),
        AtMost(bound) => (value <= bound, format!("at most {}", written(bound))),
        Below(bound) => (value < bound, format!("below {}", written(bound))),
    };
    if low_holds && high_holds {
        return Ok(());
    }
    let rule = format!("{low_text} and {high_text}");
    Err(Error::Parameter { name, value: written(value), rule })
}
