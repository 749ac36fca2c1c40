//! The polish of a learner whose data is one tensor: patterns, rows and cols are fitted to it together.

use crate::data::dictionary::UnitVector;
use crate::data::tensor::Tensor;
use crate::error::Error;
use crate::learner::{Learner, Method};
use crate::parallel::message::gather;
use crate::parallel::team::{Team, agree};
use crate::params::ModelKind;
use crate::untangle::factors::Factors;
use crate::untangle::trilinear::{Cell, Trilinear};

/// The factors of a pattern must hold at least this share of it. Otherwise several groups share the pattern, and one
/// pair of factors cannot stand for them.
const ONE_GROUP: f64 = 0.5;

/// Sweeps of expectation-maximization before those of least squares.
const FIRST_SWEEPS: usize = 50;

/// The result of [`Learner::polish`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Polish {
    /// The row and col factors, none of them negative.
    pub factors: Factors,
    /// Number of sweeps over the tensor.
    pub sweeps: usize,
    /// |Z - l|_F / |Z|_F, where l is what patterns, rows and cols give together, and negative values of Z count as 0.
    pub fit: f64,
    /// Share of the values of the tensor that are negative, 0 to 1. Values that are zero are left out.
    pub negative: f64,
}

impl Learner {
    /// Fits patterns, rows and cols together to the only tensor that this learner has learned from, none of them
    /// negative, and replaces the patterns. `factors` are those of the step
    /// ([`Codes::untangle`](crate::Codes::untangle)).
    ///
    /// It helps where similar patterns occur in the same fibers. The exact model uses least squares, and the counts
    /// model expectation-maximization. Negative values of the tensor count as 0. The ranks of a team have shares of
    /// the tensor, and each of them holds all of its non-zero cells for the time of the polish.
    ///
    /// # Errors
    /// [`Error::Features`] or [`Error::Patterns`] for a tensor or factors of other sizes; [`Error::Parameter`] after
    /// more than one tensor; [`Error::SeveralGroups`] if the factors hold less than half of a pattern. The learner
    /// is then unchanged.
    pub fn polish(&mut self, tensor: &Tensor<'_>, factors: &Factors) -> Result<Polish, Error> {
        let (kind, team) = (self.kind(), &*self.common.team.0);
        agree(team, self.check_polish(tensor, factors))?;
        let (cells, negative) = cells(team, tensor);
        let mut trilinear = Trilinear::new(&self.common.dictionary, factors);
        // From a poor start, least squares may set all rows of a pattern to zero, and they would stay there.
        if kind == ModelKind::Exact {
            trilinear.fit(ModelKind::Counts, &cells, FIRST_SWEEPS);
        }
        let sweeps = trilinear.fit(kind, &cells, usize::MAX);
        let energy: f64 = cells.iter().map(|cell| cell.value.powi(2)).sum();
        let error = trilinear.squared_error(&cells);
        let fit = if energy > 0.0 { (error / energy).sqrt() } else { 0.0 };
        let (patterns, factors) = trilinear.into_parts(kind);
        self.replace_patterns(&patterns, &factors);
        Ok(Polish { factors, sweeps, fit, negative })
    }

    fn check_polish(&self, tensor: &Tensor<'_>, factors: &Factors) -> Result<(), Error> {
        self.common.check_features(tensor.shape())?;
        let (codes, dictionary) = (factors.rank_one.len(), self.common.dictionary.patterns());
        if codes != dictionary {
            return Err(Error::Patterns { codes, dictionary });
        }
        if self.common.steps > 1 {
            let value = format!("asked for after {} tensors", self.common.steps);
            let rule = "left out for a stream: rows and cols of several tensors differ".into();
            return Err(Error::Parameter { name: "polish", value, rule });
        }
        let several = |(_, share): &(usize, &f64)| **share > 0.0 && **share < ONE_GROUP;
        match factors.rank_one.iter().enumerate().find(several) {
            Some((pattern, &share)) => Err(Error::SeveralGroups { pattern, share }),
            None => Ok(()),
        }
    }

    /// Replaces the patterns, given column by column. A pattern without factors stays as it is.
    fn replace_patterns(&mut self, patterns: &[f64], factors: &Factors) {
        let n = self.common.dictionary.features();
        let columns = patterns.chunks_exact(n).enumerate().filter(|(i, _)| factors.rank_one[*i] > 0.0);
        match &mut self.method {
            Method::Exact(_) => {
                for (i, column) in columns {
                    if let Some(pattern) = UnitVector::new(column.to_vec()) {
                        self.common.dictionary.set(i, &pattern);
                    }
                }
            }
            Method::Counts(counts) => {
                columns.for_each(|(i, column)| counts.statistics.set_pattern(i, column));
                self.common.dictionary = counts.statistics.dictionary();
            }
        }
    }
}

/// Returns the positive cells of the tensors of all ranks in the order of their places, and the share of the non-zero
/// cells that are negative.
fn cells(team: &dyn Team, tensor: &Tensor<'_>) -> (Vec<Cell>, f64) {
    let mut own = Vec::new();
    for (fiber, place) in tensor.places().iter().enumerate() {
        let cell = |(feature, value)| Cell { at: [feature, place.row, place.col], value, hidden: false };
        own.extend(tensor.entries(fiber).map(cell).filter(|cell| cell.value != 0.0));
    }
    let mut cells: Vec<Cell> = gather(team, own).into_iter().flatten().collect();
    cells.sort_unstable_by_key(|cell| [cell.at[1], cell.at[2], cell.at[0]]);
    let all = cells.len();
    cells.retain(|cell| cell.value > 0.0);
    let negative = if all > 0 { (all - cells.len()) as f64 / all as f64 } else { 0.0 };
    (cells, negative)
}
