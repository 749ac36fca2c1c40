//! Recipes: named actions that prepare a tensor before anything is learned from it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use tensornoodl::parallel::{Solo, agree, gather};
use tensornoodl::{Place, Team, Tensor};

use crate::error::Error;

/// An action on a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Replaces every z that is not zero by log2(z) + 1, which brings counts of very different size closer together.
    /// The action is made for counts: 1/2 becomes 0, and smaller values become negative.
    Log2,
    /// Divides everything by the largest magnitude.
    Scale,
    /// Subtracts from every fiber its mean over the features.
    Center,
}

const NAMES: [(Action, &str); 3] =
    [(Action::Log2, "log2"), (Action::Scale, "scale"), (Action::Center, "center")];

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
        let name =
            |action: &Action| NAMES.iter().find(|known| known.0 == *action).map_or("", |known| known.1);
        f.write_str(&self.0.iter().map(name).collect::<Vec<_>>().join(","))
    }
}

impl Recipe {
    /// Applies all actions. Fibers that become zero, such as constant fibers when they are centered, are left out.
    ///
    /// # Errors
    /// [`Error::Logarithm`] if log2 meets a negative value, [`Error::Tensor`] if the core crate refuses the result.
    pub fn apply(&self, tensor: Tensor<'_>) -> Result<Tensor<'static>, Error> {
        self.apply_in(&Solo, tensor)
    }

    /// Applies all actions to a tensor whose fibers are distributed over the ranks of a team. All ranks call this
    /// function together.
    ///
    /// # Errors
    /// As [`Recipe::apply`]. If one rank has an error, all ranks return an error.
    pub fn apply_in(&self, team: &dyn Team, tensor: Tensor<'_>) -> Result<Tensor<'static>, Error> {
        let (shape, n) = (tensor.shape(), tensor.shape().features);
        let (mut values, mut places) = (tensor.values().to_vec(), tensor.places().to_vec());
        for action in &self.0 {
            match action {
                Action::Log2 => agree(team, log2(&mut values, &places, n))?,
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

/// Applies log2 to fibers of `n` values each.
fn log2(values: &mut [f64], places: &[Place], n: usize) -> Result<(), Error> {
    if let Some(at) = values.iter().position(|value| *value < 0.0) {
        return Err(Error::Logarithm { value: values[at], feature: at % n, place: places[at / n] });
    }
    values.iter_mut().filter(|value| **value != 0.0).for_each(|value| *value = value.log2() + 1.0);
    Ok(())
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
    use super::*;
    use tensornoodl::Shape;

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
    }

    #[test]
    fn centering_removes_constant_fibers() {
        let flat = tensor(&[(0, 0, 0, 0.1), (1, 0, 0, 0.1), (0, 2, 0, 3.0)]);
        let centred = Recipe(vec![Action::Center]).apply(flat).unwrap();
        assert_eq!((centred.fibers(), centred.places()[0].row), (1, 2));
    }

    #[test]
    fn unknown_names_and_negative_values_are_refused() {
        let error = "log2,sqrt".parse::<Recipe>().unwrap_err();
        assert_eq!(error.to_string(), "the recipe has \"sqrt\", actions are log2, scale, center");
        let error = Recipe(vec![Action::Log2]).apply(tensor(&[(1, 2, 0, -4.0)])).unwrap_err();
        let text = "log2 met the value -4 at feature 1 of the fiber at row 2, col 0 (counted from 0): it needs values above 0";
        assert_eq!(error.to_string(), text);
        assert_eq!("scale,center".parse::<Recipe>().unwrap().to_string(), "scale,center");
    }
}
