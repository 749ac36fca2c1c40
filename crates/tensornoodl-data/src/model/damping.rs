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
    /// Why it was chosen, in a sentence. None if it was given.
    pub reason: Option<String>,
    /// The number of patterns of the counts themselves, and the evidence for it, if the program chose the recipe.
    /// Damped counts have no Poisson noise, by which a number of patterns could be judged.
    pub patterns: Option<(usize, Evidence)>,
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
    let recipes = [vec![], vec![Action::Sqrt], vec![Action::Log2], vec![Action::Presence]].map(Recipe);
    let tables = recipes.iter().map(|recipe| recipe.apply_in(team, tensor.clone()));
    let tables: Vec<Tensor<'_>> = tables.collect::<Result<_, Error>>()?;
    let found = compare_tables(team, &tables, patterns, seed, stop)?;
    let significant = found.scores.iter().zip(recipes).skip(1).filter(|(score, _)| score.is_significant());
    let best = significant.max_by(|a, b| a.0.gain.total_cmp(&b.0.gain));
    let evidence = Evidence { rungs: found.rungs.iter().map(Rung::from).collect(), stability: None };
    let (recipe, reason) = match best {
        Some((score, recipe)) => {
            let reason = format!(
                "the counts are damped by {recipe}, because that predicts better where events are \
                 (gain {:.0} +- {:.0} in log-likelihood)",
                score.gain, score.error
            );
            (recipe, reason)
        }
        None => {
            let reason = "the counts are not damped, because no damping predicts better where events are";
            (Recipe::default(), reason.to_owned())
        }
    };
    let patterns = patterns.is_none().then_some((found.patterns, evidence));
    Ok(ChosenRecipe { recipe, reason: Some(reason), patterns })
}
