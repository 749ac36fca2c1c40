//! The begin of a run of `noodl learn`: its model, its recipe and its first patterns.

use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use tensornoodl::parallel::agree;
use tensornoodl::{DiscoverParams, Error, Learner, ModelKind, Rule, Stop, Team, Tensor};
use tensornoodl_cli::output::note;
use tensornoodl_cli::program::{NothingExplained, wrong};
use tensornoodl_cli::progress::Spinner;
use tensornoodl_data::{
    ChosenRecipe, Error as DataError, Events, Model, ModelChoice, Query, RecipeChoice, check_recipe,
    model_name,
};

use crate::cmd::learn::{Args, Run, load};

impl Args {
    fn learner(
        &self,
        team: &Arc<dyn Team>,
        events: &Events,
        kind: ModelKind,
        tensor: &Tensor<'_>,
        search: DiscoverParams,
    ) -> anyhow::Result<Learner> {
        if let Some(path) = &self.start_model {
            let (params, start) = (self.params(events)?, load(&**team, path)?);
            // The paper's update rule keeps no state beside the dictionary.
            return match params.rule {
                Rule::Adaptive => {
                    let mut learner = start.learner;
                    learner.set_params(params)?;
                    // The table has rows and cols of its own.
                    learner.forget_places();
                    Ok(learner)
                }
                Rule::Paper { .. } => Ok(Learner::new(start.learner.dictionary().clone(), params)?),
            };
        }
        Ok(self.begin(team, events, kind, tensor, search)?)
    }

    /// Returns a learner for the first tensor, without a model to start from.
    pub(super) fn begin(
        &self,
        team: &Arc<dyn Team>,
        events: &Events,
        kind: ModelKind,
        tensor: &Tensor<'_>,
        search: DiscoverParams,
    ) -> Result<Learner, Error> {
        let params = self.params(events)?;
        if kind == ModelKind::Counts {
            return Learner::for_counts(tensor.shape().features, params, search);
        }
        Learner::from_tensor(Arc::clone(team), tensor, params, search, events.steps.is_some())
    }
}

impl Run<'_> {
    /// Chooses the model, and says which one and why.
    pub(super) fn choose_model(
        &self,
        events: &mut Events,
        query: &Query,
        start: Option<&Model>,
    ) -> anyhow::Result<ModelKind> {
        let args = self.args;
        let (kind, reason) = match (start, args.eta_a, args.model) {
            (Some(start), ..) => (start.learner.kind(), "the model to start from has it".to_owned()),
            (_, Some(_), ModelChoice::Auto) => (ModelKind::Exact, "--eta-a belongs to it".to_owned()),
            (.., choice) => choice.resolve(query, &args.recipe.given()),
        };
        check_recipe(kind, &args.recipe.given())?;
        if kind == ModelKind::Counts {
            if args.polish {
                self.clip(events)?;
            } else {
                agree(&**self.team, events.check_counts(&args.table.name()))?;
            }
            if args.eta_a.is_some() {
                return Err(wrong(
                    "eta_a",
                    "given",
                    "left out with the counts model, which has no step size",
                )
                .into());
            }
        }
        if !self.quiet {
            note(&format!("the {} model is used, because {reason}", model_name(kind)));
        }
        Ok(kind)
    }

    /// Leaves out negative values, which the counts model does not take, and says how many.
    fn clip(&self, events: &mut Events) -> anyhow::Result<()> {
        let mut counts = [events.cells() as i64, 0];
        counts[1] = events.clip() as i64;
        self.team.sum(&mut counts);
        if counts[1] > 0 && !self.quiet {
            let share = 100.0 * counts[1] as f64 / counts[0] as f64;
            note(&format!("{share:.1} % of the values are negative; they count as 0"));
        }
        Ok(())
    }

    /// Chooses the recipe, and says which one and why if that was left to the program.
    pub(super) fn choose_recipe(
        &self,
        events: &Events,
        kind: ModelKind,
        start: Option<&Model>,
        stop: &Stop,
    ) -> anyhow::Result<ChosenRecipe> {
        if let Some(start) = start {
            return Ok(ChosenRecipe { recipe: start.card.recipe.clone(), ..ChosenRecipe::default() });
        }
        // Damped values are no products of patterns, rows and cols.
        if self.args.polish && self.args.recipe == RecipeChoice::Auto {
            return Ok(ChosenRecipe::default());
        }
        let spinner = Spinner::new("looking whether to damp the counts", self.quiet);
        let tensor = agree(&**self.team, events.tensor(0))?;
        let choice = &self.args.recipe;
        let chosen = choice.resolve(&**self.team, kind, &tensor, self.args.patterns.0, self.args.seed, stop);
        let chosen = chosen.map_err(|error| match error {
            DataError::Tensor(Error::Stopped) => self.interrupted(0),
            error => error.into(),
        })?;
        spinner.finish();
        if let Some(sentence) = chosen.sentence().filter(|_| !self.quiet) {
            note(&sentence);
        }
        Ok(chosen)
    }

    /// Returns a learner with the patterns of the first tensor, or with those of the model to start from.
    pub(super) fn first_patterns(
        &self,
        events: &Events,
        chosen: &ChosenRecipe,
        kind: ModelKind,
        stop: Stop,
    ) -> anyhow::Result<Learner> {
        let spinner = Spinner::new("looking for patterns", self.quiet);
        let tensor = chosen.recipe.apply_in(&**self.team, agree(&**self.team, events.tensor(0))?)?;
        let of_counts = chosen.patterns.as_ref().map(|patterns| patterns.0);
        let search = self.args.search(events, of_counts, self.args.seed, stop);
        let learner = self.args.learner(self.team, events, kind, &tensor, search);
        let learner = learner.map_err(|error| match error.downcast_ref() {
            Some(Error::Stopped) => self.interrupted(0),
            Some(Error::NoPattern) => NothingExplained(format!(
                "{} has no significant pattern: none comes again in most of five searches; nothing was written. Use --patterns N \
                 to accept the N strongest",
                self.args.table.name()
            ))
            .into(),
            Some(nothing @ Error::NothingShared) => {
                NothingExplained(format!("{}: {nothing}; nothing was written", self.args.table.name())).into()
            }
            _ => error,
        })?;
        spinner.finish();
        Ok(learner)
    }

    /// Gives the events the features of the model to start from; cells of other features are left out, and stderr says so.
    pub(super) fn align(&self, events: &mut Events, start: &Model, path: &Path) -> anyhow::Result<()> {
        let mut counts = [events.cells() as i64, 0];
        counts[1] = events.align(&start.card.features) as i64;
        self.team.sum(&mut counts);
        let [cells, lost] = counts;
        if lost > 0 && lost < cells && self.writes {
            note(&format!(
                "{lost} of {cells} cells have features that {} does not know; they are left out",
                path.display()
            ));
        }
        if lost == cells {
            return Err(anyhow!(
                "{} knows none of the features of this table: it has {}, ...; use the --feature that it was learned with",
                path.display(),
                start.card.features.first().map_or("", String::as_str)
            ));
        }
        Ok(())
    }
}
