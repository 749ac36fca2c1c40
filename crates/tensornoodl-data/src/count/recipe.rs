//! What is done to a tensor before anyone learns from it, by name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use tensornoodl::parallel::{Solo, agree};
use tensornoodl::{Team, Tensor};

use crate::error::Error;

/// One thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// z becomes log2(z) + 1, where z is not zero: counts of very different size come nearer. It is made for counts: 1/2
    /// becomes 0, and less becomes negative.
    Log2,
    /// Everything is divided by the largest magnitude.
    Scale,
    /// Every fiber loses its mean over the features.
    Center,
}

const NAMES: [(Action, &str); 3] =
    [(Action::Log2, "log2"), (Action::Scale, "scale"), (Action::Center, "center")];

/// Actions, in order: `log2,scale,center`. An empty one changes nothing.
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
    /// Does all of it. Fibers that come out all zero, such as constant ones when centred, are left out.
    pub fn apply(&self, tensor: Tensor<'_>) -> Result<Tensor<'static>, Error> {
        self.apply_in(&Solo, tensor)
    }

    /// The same to a tensor of which the ranks of a team have shares. An error is that of all of them.
    pub fn apply_in(&self, team: &dyn Team, tensor: Tensor<'_>) -> Result<Tensor<'static>, Error> {
        let (shape, n) = (tensor.shape(), tensor.shape().features);
        let (mut values, mut places) = (tensor.values().to_vec(), tensor.places().to_vec());
        for action in &self.0 {
            match action {
                Action::Log2 => {
                    let negative = values.iter().position(|value| *value < 0.0).map_or(Ok(()), |at| {
                        let (value, feature, place) = (values[at], at % n, places[at / n]);
                        Err(Error::Logarithm { value, feature, place })
                    });
                    agree(team, negative)?;
                    let logarithm = |value: &mut f64| *value = value.log2() + 1.0;
                    values.iter_mut().filter(|value| **value != 0.0).for_each(logarithm);
                }
                Action::Scale => {
                    let largest = values.iter().fold(0.0, |a: f64, v| a.max(v.abs()));
                    let all = team.gather(largest.to_le_bytes().to_vec());
                    let all = all.iter().filter_map(|bytes| bytes.first_chunk());
                    let largest = all.map(|bytes| f64::from_le_bytes(*bytes)).fold(0.0, f64::max);
                    if largest > 0.0 {
                        values.iter_mut().for_each(|v| *v /= largest);
                    }
                }
                Action::Center => {
                    for fiber in values.chunks_exact_mut(n) {
                        let mean = fiber.iter().sum::<f64>() / n as f64;
                        // What rounding leaves of a constant is nothing.
                        let constant = fiber.iter().all(|v| *v == fiber[0]);
                        fiber.iter_mut().for_each(|v| *v = if constant { 0.0 } else { *v - mean });
                    }
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use tensornoodl::Shape;

    fn tensor(entries: &[(usize, usize, usize, f64)]) -> Tensor<'static> {
        Tensor::from_triplets(Shape { features: 2, rows: 3, cols: 1 }, entries).unwrap()
    }

    #[test]
    fn actions_are_done_in_order() {
        let counts = tensor(&[(0, 0, 0, 8.0), (1, 0, 0, 2.0), (0, 1, 0, 1.0)]);
        let apply = |recipe: &str| recipe.parse::<Recipe>().unwrap().apply(counts.clone()).unwrap();
        assert_eq!(apply("log2").values(), [4.0, 2.0, 1.0, 0.0]);
        assert_eq!(apply("log2,scale,center").values(), [0.25, -0.25, 0.125, -0.125]);
        assert_eq!(apply("scale,log2").values(), [1.0, -1.0, -2.0, 0.0]);
        assert_eq!(apply("").values(), counts.values());
    }

    #[test]
    fn a_constant_fiber_is_gone_when_centred() {
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
