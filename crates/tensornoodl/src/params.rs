//! Parameters of a learner: defaults, ranges, and the function that checks ranges.
//!
//! ```text
//! eta_x, tau, R, delta_R    step size, threshold, steps and tolerance of iterative hard thresholding (alg:coeff_iht)
//! C                         smallest magnitude of a true code (alg:coeff_init)
//! eta_A                     step size of the dictionary (eq:apx_grad)
//! ```

use crate::error::Error;

/// The model that explains the fibers of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ModelKind {
    /// The model of the paper: a fiber is a sum of few patterns, with Gaussian noise. Its guarantees hold for it alone.
    Exact,
    /// A fiber counts events, and each event belongs to one of few patterns: Poisson noise.
    Counts,
}

/// How stage I computes the code of a fiber.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum Solver {
    /// Solves for the limit of iterative hard thresholding directly on the support, and proves that it is the limit. A
    /// fiber for which the proof fails is iterated as with [`Solver::Iht`].
    #[default]
    Direct,
    /// Runs iterative hard thresholding step by step, as in the paper (alg:coeff_iht).
    Iht,
}

/// How stage III updates the dictionary.
#[derive(Debug, Clone, Copy, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub enum Rule {
    /// Recursive least squares with one error variance for each pattern. There is nothing to tune.
    #[default]
    Adaptive,
    /// The paper's gradient step, with one step size for all patterns (eq:apx_grad).
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
    /// Only fibers at places (j, j): the independent set of the paper's analysis (eq:emp_grad_est).
    Independent,
}

/// Number of passes over each tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Passes {
    /// A fixed number of passes, at least 1.
    Fixed(usize),
    /// Passes as long as another one still improves the dictionary. Needs [`Rule::Adaptive`].
    Auto,
    /// Passes until the tensor is used up, for data that is a single tensor: as [`Passes::Auto`], and further as long
    /// as each pass leaves less than three quarters of the residual of the pass before. Needs [`Rule::Adaptive`].
    Exhaust,
}

/// The parameters of a [`Learner`](crate::Learner).
///
/// The defaults are the paper's values where the paper gives values. Like the paper, they assume codes of about unit
/// size.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Params {
    /// The solver of stage I.
    pub solver: Solver,
    /// eta_x, the step size of iterative hard thresholding, in (0, 1).
    pub eta_x: f64,
    /// tau > 0, the smallest magnitude of a code that iterative hard thresholding keeps.
    pub tau: f64,
    /// C > 0 in the paper, the smallest magnitude of a true code, from 1e-100 to 1e100. Codes start from the entries
    /// of A'y of magnitude C / 2 and more.
    pub code_floor: f64,
    /// R in the paper, the largest number of steps of iterative hard thresholding, at least 1.
    pub iht_steps: usize,
    /// delta_R in the paper, in [0, 1): iterative hard thresholding stops when the support stays and no entry changes
    /// by more than this fraction of the largest one. With 0, it always makes `iht_steps` steps.
    pub code_tolerance: f64,
    /// The update rule of stage III.
    pub rule: Rule,
    /// The fibers that stage III learns from.
    pub samples: Samples,
    /// The number of passes over each tensor.
    pub passes: Passes,
    /// The fraction, in [0, 1), of what it has learned that the adaptive step forgets with every tensor. It is meant
    /// for slow drift: a pattern that jumps, or changes fast enough to be visible above the noise, is followed with 0
    /// too.
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
    /// The parameters of the paper: its iteration, its step, and its values for codes of unit size.
    ///
    /// These parameters are in the units of the data, as [`Learner::new`](crate::Learner::new) expects.
    pub fn paper(eta_a: f64) -> Params {
        Params { solver: Solver::Iht, rule: Rule::Paper { eta_a }, ..Params::default() }
    }

    /// Checks the range of every parameter. [`Learner::new`](crate::Learner::new) calls this function.
    ///
    /// # Errors
    /// [`Error::Parameter`] for the first parameter that is out of range.
    pub fn check(&self) -> Result<(), Error> {
        within("eta_x", self.eta_x, Above(0.0), Below(1.0))?;
        within("tau", self.tau, Above(0.0), Below(f64::INFINITY))?;
        // The range of values in a tensor, so that squares and ratios stay finite.
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

/// The lower end of a range.
pub(crate) enum Low {
    AtLeast(f64),
    Above(f64),
}
/// The upper end of a range.
pub(crate) enum High {
    AtMost(f64),
    Below(f64),
}
pub(crate) use High::{AtMost, Below};
pub(crate) use Low::{Above, AtLeast};

/// Checks that a value is in its range. NaN is in no range.
///
/// # Errors
/// [`Error::Parameter`] if the value is out of range.
pub(crate) fn within(name: &'static str, value: f64, low: Low, high: High) -> Result<(), Error> {
    // Huge and tiny numbers are written in scientific notation, all others in decimal notation.
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
