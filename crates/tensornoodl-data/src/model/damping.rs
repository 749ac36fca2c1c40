//! The choice of a recipe that damps counts.

use std::fmt;
use std::str::FromStr;

use tensornoodl::discover::compare_tables;
use tensornoodl::{ModelKind, Stop, Team, Tensor};

use crate::count::recipe::{Action, Recipe};
use crate::error::Error;
use crate::model::evidence::{Evidence, Rung};

/// Which recipe a table is learned with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum RecipeChoice {
    /// Counts are damped if that predicts significantly better where events are. Other values stay as they are.
    #[default]
    Auto,
    /// The given recipe.
    Given(Recipe),
}

/// The recipe that a table is learned with.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChosenRecipe {
    /// The recipe.
    pub recipe: Recipe,
    /// Why it was chosen, as the end of a sentence that begins with "because". None if it was given.
    pub reason: Option<String>,
    /// The number of patterns of the counts themselves, and the evidence for it, if the program chose the recipe.
    /// Damped counts have no Poisson noise, by which a number of patterns could be judged.
    pub patterns: Option<(usize, Evidence)>,
}

impl ChosenRecipe {
    /// Returns what was chosen and why, as a sentence without a period. None if the recipe was given.
    pub fn sentence(&self) -> Option<String> {
        let reason = self.reason.as_ref()?;
        let damped =
            if self.recipe.0.is_empty() { "not damped".into() } else { format!("damped by {}", self.recipe) };
        Some(format!("the counts are {damped}, because {reason}"))
    }
}

impl FromStr for RecipeChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<RecipeChoice, Error> {
        if text == "auto" { Ok(RecipeChoice::Auto) } else { Ok(RecipeChoice::Given(text.parse()?)) }
    }
}

impl fmt::Display for RecipeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecipeChoice::Auto => f.write_str("auto"),
            RecipeChoice::Given(recipe) => recipe.fmt(f),
        }
    }
}

impl RecipeChoice {
    /// The recipe as far as it is known before any data: none for auto.
    pub fn given(&self) -> Recipe {
        match self {
            RecipeChoice::Auto => Recipe::default(),
            RecipeChoice::Given(recipe) => recipe.clone(),
        }
    }

    /// Returns the recipe for a model of this kind, and why it was chosen. `tensor` is the first tensor, before any
    /// recipe; the ranks of the team have shares of it. `patterns` is the number of patterns, if it is given.
    ///
    /// # Errors
    /// [`Error::Tensor`] if the tensor has values that are no counts, or if `stop` was set.
    pub fn resolve(
        &self,
        team: &dyn Team,
        kind: ModelKind,
        tensor: &Tensor<'_>,
        patterns: Option<usize>,
        seed: u64,
        stop: &Stop,
    ) -> Result<ChosenRecipe, Error> {
        match (self, kind) {
            (RecipeChoice::Given(recipe), _) => {
                Ok(ChosenRecipe { recipe: recipe.clone(), ..ChosenRecipe::default() })
            }
            (RecipeChoice::Auto, ModelKind::Exact) => Ok(ChosenRecipe::default()),
            // Every fiber has the same shape under one pattern, so that no damping predicts the hidden cells of a fiber
            // from those that are seen.
            (RecipeChoice::Auto, ModelKind::Counts) if patterns == Some(1) => {
                let reason = "one pattern is the mean of the counts";
                Ok(ChosenRecipe { reason: Some(reason.to_owned()), ..ChosenRecipe::default() })
            }
            (RecipeChoice::Auto, ModelKind::Counts) => damping(team, tensor, patterns, seed, stop),
        }
    }
}

/// Chooses the recipe that predicts best where events are, if it does so significantly better than no recipe.
fn damping(
    team: &dyn Team,
    tensor: &Tensor<'_>,
    patterns: Option<usize>,
    seed: u64,
    stop: &Stop,
) -> Result<ChosenRecipe, Error> {
    let actions = [None, Some(Action::Sqrt), Some(Action::Log2), Some(Action::Presence)];
    let dampings = actions.map(|action| move |value| action.map_or(value, |action| action.damped(value)));
    let found = compare_tables(team, tensor, &dampings, patterns, seed, stop)?;
    let recipes = actions.map(|action| Recipe(Vec::from_iter(action)));
    let significant = found.scores.iter().zip(recipes).skip(1).filter(|(score, _)| score.is_significant());
    let best = significant.max_by(|a, b| a.0.gain.total_cmp(&b.0.gain));
    let evidence = Evidence { rungs: found.rungs.iter().map(Rung::from).collect(), stability: None };
    let (recipe, reason) = match best {
        Some((score, recipe)) => {
            let gain = format!("gain {:.0} +- {:.0} in log-likelihood", score.gain, score.error);
            (recipe, format!("that predicts better where events are ({gain})"))
        }
        None => (Recipe::default(), "no damping predicts better where events are".to_owned()),
    };
    let patterns = patterns.is_none().then_some((found.patterns, evidence));
    Ok(ChosenRecipe { recipe, reason: Some(reason), patterns })
}

#[cfg(test)]
mod tests {
    use tensornoodl::parallel::Solo;
    use tensornoodl::{ModelKind, Place, Shape, Sparse, Stop, Tensor};

    use super::RecipeChoice;

    #[test]
    fn one_pattern_is_not_damped() {
        let mut fibers = Sparse::new(2);
        fibers.push(&[(0, 1.0), (1, 2.0)]);
        fibers.push(&[(0, 3.0)]);
        let shape = Shape { features: 2, rows: 1, cols: 2 };
        let places = [0, 1].map(|col| Place { row: 0, col }).to_vec();
        let tensor = Tensor::from_sparse(shape, fibers, places).unwrap();
        let choice = RecipeChoice::Auto;
        let chosen = choice.resolve(&Solo, ModelKind::Counts, &tensor, Some(1), 0, &Stop::default()).unwrap();
        let words = "the counts are not damped, because one pattern is the mean of the counts";
        assert_eq!(chosen.sentence().as_deref(), Some(words));
    }
}
