//! Recipes: named actions that prepare a tensor before anything is learned from it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use tensornoodl::parallel::{Solo, agree, gather};
use tensornoodl::{Place, Sparse, Team, Tensor};

use crate::error::Error;

/// An action on a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Replaces every z that is not zero by log2(z) + 1, which brings counts of very different size closer together.
    /// The action is made for counts: 1/2 becomes 0, and smaller values become negative.
    Log2,
    /// Replaces every z by its square root, which brings counts of different size closer together.
    Sqrt,
    /// Replaces every z that is not zero by 1: only whether something happened counts.
    Presence,
    /// Divides everything by the largest magnitude.
    Scale,
    /// Subtracts from every fiber its mean over the features.
    Center,
}

const NAMES: [(Action, &str); 5] = [
    (Action::Log2, "log2"),
    (Action::Sqrt, "sqrt"),
    (Action::Presence, "presence"),
    (Action::Scale, "scale"),
    (Action::Center, "center"),
];

impl Action {
    /// Returns the name of the action in a recipe.
    fn name(self) -> &'static str {
        NAMES.iter().find(|known| known.0 == self).map_or("", |known| known.1)
    }
}

/// Actions that are applied in order, written `log2,scale,center`. An empty recipe changes nothing.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq, Default)]
#[serde(into = "String", try_from = "String")]
pub struct Recipe(pub Vec<Action>);

impl FromStr for Recipe {
    type Err = Error;

    fn from_str(text: &str) -> Result<Recipe, Error> {
        let action = |name: &str| {
            let known = NAMES.iter().find(|known| known.1 == name);
            known.map(|known| known.0).ok_or_else(|| Error::Action(name.into()))
        };
        text.split(',').filter(|_| !text.is_empty()).map(action).collect::<Result<_, _>>().map(Recipe)
    }
}

impl From<Recipe> for String {
    fn from(it: Recipe) -> String {
        it.to_string()
    }
}

impl TryFrom<String> for Recipe {
    type Error = Error;

    fn try_from(text: String) -> Result<Recipe, Error> {
        text.parse()
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(|action| action.name()).collect::<Vec<_>>().join(","))
    }
}

impl Recipe {
    /// Returns whether the recipe only damps: all its actions are log2, sqrt or presence. Counts then become values
    /// that are not negative, and 0 stays 0.
    pub fn keeps_counts(&self) -> bool {
        self.0.iter().all(|action| matches!(action, Action::Log2 | Action::Sqrt | Action::Presence))
    }

    /// Returns the count that became this value, which is not 0, if the recipe only damps. It is 1 if the recipe keeps
    /// nothing but presence.
    pub(crate) fn undo(&self, value: f64) -> f64 {
        self.0.iter().rev().fold(value, |value, action| match action {
            Action::Log2 => (value - 1.0).exp2(),
            Action::Sqrt => value * value,
            Action::Presence => 1.0,
            Action::Scale | Action::Center => value,
        })
    }

    /// Applies all actions. Fibers that become zero, such as constant fibers when they are centered, are left out.
    ///
    /// # Errors
    /// [`Error::Negative`] if log2 or sqrt meets a negative value, [`Error::Tensor`] if the core crate refuses the
    /// result.
    pub fn apply(&self, tensor: Tensor<'_>) -> Result<Tensor<'static>, Error> {
        self.apply_in(&Solo, tensor)
    }

    /// Applies all actions to a tensor whose fibers are distributed over the ranks of a team. All ranks call this
    /// function together.
    ///
    /// # Errors
    /// As [`Recipe::apply`]. If one rank has an error, all ranks return an error.
    pub fn apply_in(&self, team: &dyn Team, tensor: Tensor<'_>) -> Result<Tensor<'static>, Error> {
        if tensor.sparse().is_some() && self.keeps_counts() {
            return self.0.iter().try_fold(tensor.into_owned(), |tensor, action| action.damp(team, tensor));
        }
        let (shape, n) = (tensor.shape(), tensor.shape().features);
        let (mut values, mut places) = (tensor.values().to_vec(), tensor.places().to_vec());
        for action in &self.0 {
            match action {
                Action::Log2 | Action::Sqrt | Action::Presence => {
                    agree(team, check_signs(*action, &values, &places, n))?;
                    replace_nonzero(&mut values, |z| action.damped(z));
                }
                Action::Scale => scale(&mut values, team),
                Action::Center => values.chunks_exact_mut(n).for_each(center),
            }
        }
        let mut kept = 0;
        for fiber in 0..places.len() {
            if values[fiber * n..][..n].iter().any(|v| *v != 0.0) {
                values.copy_within(fiber * n..(fiber + 1) * n, kept * n);
                places[kept] = places[fiber];
                kept += 1;
            }
        }
        values.truncate(kept * n);
        places.truncate(kept);
        Ok(agree(team, Tensor::from_fibers(shape, values, places))?)
    }
}

impl Action {
    /// Whether the action is defined for values that are not negative only.
    fn needs_signs(self) -> bool {
        matches!(self, Action::Log2 | Action::Sqrt)
    }

    /// Damps a tensor of which only the values that are not zero are stored.
    fn damp(self, team: &dyn Team, tensor: Tensor<'static>) -> Result<Tensor<'static>, Error> {
        let (shape, p) = (tensor.shape(), tensor.fibers());
        let entries = tensor.sparse().map_or(0, Sparse::nnz);
        let (mut damped, mut kept) =
            (Sparse::with_capacity(shape.features, p, entries), Vec::with_capacity(p));
        let mut column: Vec<(u32, f64)> = Vec::new();
        let damping = tensor.places().iter().enumerate().try_for_each(|(fiber, &place)| {
            column.clear();
            for (feature, value) in tensor.entries(fiber) {
                if self.needs_signs() && value < 0.0 {
                    let feature = feature as usize;
                    return Err(Error::Negative { action: self.name(), value, feature, place });
                }
                column.push((feature, self.damped(value)));
            }
            column.retain(|entry| entry.1 != 0.0);
            if !column.is_empty() {
                damped.push(&column);
                kept.push(place);
            }
            Ok(())
        });
        agree(team, damping)?;
        Ok(agree(team, Tensor::from_sparse(shape, damped, kept))?)
    }

    /// The damped value of a value that is not zero. Other actions than log2, sqrt and presence change nothing.
    pub(crate) fn damped(self, value: f64) -> f64 {
        match self {
            Action::Log2 => value.log2() + 1.0,
            Action::Sqrt => value.sqrt(),
            Action::Presence => 1.0,
            Action::Scale | Action::Center => value,
        }
    }
}

/// Checks that no value is negative, in fibers of `n` values each.
fn check_signs(action: Action, values: &[f64], places: &[Place], n: usize) -> Result<(), Error> {
    let negative = values.iter().position(|value| action.needs_signs() && *value < 0.0);
    negative.map_or(Ok(()), |at| {
        let (value, feature, place) = (values[at], at % n, places[at / n]);
        Err(Error::Negative { action: action.name(), value, feature, place })
    })
}

/// Replaces every value that is not zero.
fn replace_nonzero(values: &mut [f64], new: impl Fn(f64) -> f64) {
    values.iter_mut().filter(|value| **value != 0.0).for_each(|value| *value = new(*value));
}

/// Divides the values by the largest magnitude of all ranks.
fn scale(values: &mut [f64], team: &dyn Team) {
    let own = values.iter().fold(0.0, |a: f64, v| a.max(v.abs()));
    let largest = gather(team, own).into_iter().fold(0.0, f64::max);
    if largest > 0.0 {
        values.iter_mut().for_each(|v| *v /= largest);
    }
}

/// Subtracts the mean of a fiber.
fn center(fiber: &mut [f64]) {
    let mean = fiber.iter().sum::<f64>() / fiber.len() as f64;
    // The rounded mean of equal values can differ from them.
    let constant = fiber.iter().all(|v| *v == fiber[0]);
    fiber.iter_mut().for_each(|v| *v = if constant { 0.0 } else { *v - mean });
}

#[cfg(test)]
mod tests {
    use tensornoodl::Shape;

    use super::*;

    fn tensor(entries: &[(usize, usize, usize, f64)]) -> Tensor<'static> {
        Tensor::from_triplets(Shape { features: 2, rows: 3, cols: 1 }, entries).unwrap()
    }

    #[test]
    fn actions_are_applied_in_order() {
        let counts = tensor(&[(0, 0, 0, 8.0), (1, 0, 0, 2.0), (0, 1, 0, 1.0)]);
        let apply = |recipe: &str| recipe.parse::<Recipe>().unwrap().apply(counts.clone()).unwrap();
        assert_eq!(apply("log2").values(), [4.0, 2.0, 1.0, 0.0]);
        assert_eq!(apply("log2,scale,center").values(), [0.25, -0.25, 0.125, -0.125]);
        assert_eq!(apply("scale,log2").values(), [1.0, -1.0, -2.0, 0.0]);
        assert_eq!(apply("").values(), counts.values());
        let roots = apply("sqrt");
        assert_eq!(roots.values(), [8.0_f64.sqrt(), 2.0_f64.sqrt(), 1.0, 0.0]);
        assert_eq!(apply("presence").values(), [1.0, 1.0, 1.0, 0.0]);
        assert_eq!(apply("log2,sqrt").values(), [2.0, 2.0_f64.sqrt(), 1.0, 0.0]);
        let signed = tensor(&[(0, 0, 0, -3.0), (1, 1, 0, 0.5)]);
        assert_eq!(Recipe(vec![Action::Presence]).apply(signed).unwrap().values(), [1.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn damping_stores_as_little_as_the_tensor() {
        let dense = tensor(&[(0, 0, 0, 8.0), (1, 0, 0, 0.5), (1, 1, 0, 0.5)]);
        let mut fibers = Sparse::new(2);
        fibers.push(&[(0, 8.0), (1, 0.5)]);
        fibers.push(&[(1, 0.5)]);
        let sparse = Tensor::from_sparse(dense.shape(), fibers, dense.places().to_vec()).unwrap();
        for recipe in ["", "log2", "sqrt", "presence", "sqrt,log2"] {
            let recipe: Recipe = recipe.parse().unwrap();
            let (full, few) = (recipe.apply(dense.clone()).unwrap(), recipe.apply(sparse.clone()).unwrap());
            assert!(few.sparse().is_some() && full.sparse().is_none(), "{recipe}");
            assert_eq!((few.values(), few.places()), (full.values(), full.places()), "{recipe}");
        }
        // log2(0.5) + 1 is 0, and the fiber that becomes zero is left out.
        assert_eq!(Recipe(vec![Action::Log2]).apply(sparse).unwrap().fibers(), 1);
        let mut fibers = Sparse::new(2);
        fibers.push(&[(1, -2.0)]);
        let negative = Tensor::from_sparse(dense.shape(), fibers, vec![Place { row: 2, col: 0 }]).unwrap();
        let refused = Recipe(vec![Action::Sqrt]).apply(negative).unwrap_err().to_string();
        assert!(refused.contains("-2"), "{refused}");
    }

    #[test]
    fn damping_can_be_undone() {
        let counts = tensor(&[(0, 0, 0, 8.0), (1, 0, 0, 3.0), (0, 1, 0, 1.0)]);
        for (recipe, expected) in [
            ("", [8.0, 3.0, 1.0]),
            ("log2", [8.0, 3.0, 1.0]),
            ("sqrt", [8.0, 3.0, 1.0]),
            ("sqrt,log2", [8.0, 3.0, 1.0]),
            ("presence", [1.0, 1.0, 1.0]),
        ] {
            let recipe: Recipe = recipe.parse().unwrap();
            let damped = recipe.apply(counts.clone()).unwrap();
            let values = damped.values().iter().filter(|value| **value != 0.0);
            assert_eq!(
                values.map(|value| recipe.undo(*value).round()).collect::<Vec<_>>(),
                expected,
                "{recipe}"
            );
        }
    }

    #[test]
    fn damping_keeps_counts() {
        for (text, keeps) in [
            ("", true),
            ("log2", true),
            ("sqrt,log2,presence", true),
            ("scale", false),
            ("log2,center", false),
            ("sqrt,scale", false),
        ] {
            assert_eq!(text.parse::<Recipe>().unwrap().keeps_counts(), keeps, "{text}");
        }
    }

    #[test]
    fn centering_removes_constant_fibers() {
        let flat = tensor(&[(0, 0, 0, 0.1), (1, 0, 0, 0.1), (0, 2, 0, 3.0)]);
        let centred = Recipe(vec![Action::Center]).apply(flat).unwrap();
        assert_eq!((centred.fibers(), centred.places()[0].row), (1, 2));
    }

    #[test]
    fn unknown_names_and_negative_values_are_refused() {
        let error = "log2,root".parse::<Recipe>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "the recipe has \"root\", actions are log2, sqrt, presence, scale, center"
        );
        for action in [Action::Log2, Action::Sqrt] {
            let error = Recipe(vec![action]).apply(tensor(&[(1, 2, 0, -4.0)])).unwrap_err();
            let text = "met the value -4 at feature 1 of the fiber at row 2, col 0 (counted from 0): it needs values of at least 0";
            assert_eq!(error.to_string(), format!("{} {text}", action.name()));
        }
        let all = "log2,sqrt,presence,scale,center";
        assert_eq!(all.parse::<Recipe>().unwrap().to_string(), all);
    }
}
