//! The begin of a model: where its data comes from, its recipe and its learner.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tensornoodl::parallel::Solo;
use tensornoodl::{Learner, ModelKind, Params, Rule, Stop};
use tensornoodl_data::{Axis, Card, ChosenRecipe, Query, RecipeChoice, Value};

use crate::errors::py_error;
use crate::events::Events;
use crate::options::Options;
use crate::prepare::prepare;
use crate::run::run;
use crate::tensor::Tensor;

/// The reason for a recipe that the user has chosen.
const ASKED: &str = "it was asked for";

/// Returns the card of a new model: where its data comes from.
pub(crate) fn new_card(tensor: &Tensor, events: Option<&Events>) -> Card {
    let labels = (*tensor.labels.names).clone();
    if let Some(events) = events {
        return Card {
            table: events.table.clone(),
            tally: events.events.tally.clone(),
            row_groups: events.events.row_groups.clone(),
            col_groups: events.events.col_groups.clone(),
            ..Card::new(events.query.clone(), labels)
        };
    }
    let (value, average_over) = match tensor.cells.clone() {
        Some(cells) => (cells.value, cells.average_over),
        None => (Value::Sum("value".into()), None),
    };
    let [feature, row, col] =
        tensor.dims.clone().unwrap_or_else(|| ["1", "2", "3"].map(|axis| Axis::Bin(axis.into(), 1.0)));
    let query = Query {
        feature,
        row,
        col,
        step: None,
        value,
        average_over,
        keep_rows: None,
        max_features: None,
        filters: Vec::new(),
        square: false,
        names: None,
        groups: None,
    };
    Card { table: "an array".into(), ..Card::new(query, labels) }
}

/// Returns the learner of an earlier model, with new parameters. The card gets the features and the recipe of that
/// model.
pub(crate) fn continue_learner(
    earlier: &tensornoodl_data::Model,
    params: Params,
    recipe: &RecipeChoice,
    card: &mut Card,
) -> PyResult<Learner> {
    if *recipe != RecipeChoice::Auto && recipe.given() != earlier.card.recipe {
        let text = format!(
            "init was learned with the recipe '{}', it must be the same: patterns do not fit data of another recipe; \
             recipe='auto' takes that of init",
            earlier.card.recipe
        );
        return Err(PyValueError::new_err(text));
    }
    (card.features, card.recipe) = (earlier.card.features.clone(), earlier.card.recipe.clone());
    match params.rule {
        Rule::Adaptive => {
            let mut learner = earlier.learner.clone();
            learner.set_params(params).map_err(py_error)?;
            Ok(learner)
        }
        // The paper's step has no state to continue from.
        Rule::Paper { .. } => Learner::new(earlier.learner.dictionary().clone(), params).map_err(py_error),
    }
}

/// Chooses the recipe for a new model, whose card has none yet. The reason is the end of a sentence that begins with
/// "because".
pub(crate) fn choose_recipe(
    py: Python<'_>,
    tensor: &Tensor,
    options: &Options,
    choice: &RecipeChoice,
    card: &Card,
    kind: ModelKind,
) -> PyResult<(ChosenRecipe, String)> {
    let fixed = match (choice, kind) {
        (RecipeChoice::Given(_), _) => Some(ASKED),
        (_, ModelKind::Exact) => Some("the exact model takes values as they are"),
        _ if options.polish => {
            Some("damped values are no products of patterns, rows and cols, which polish fits")
        }
        _ => None,
    };
    if let Some(reason) = fixed {
        return Ok((ChosenRecipe { recipe: choice.given(), ..ChosenRecipe::default() }, reason.into()));
    }
    let stop = Stop::default();
    let chosen: Result<ChosenRecipe, tensornoodl_data::Error> = tensor.with(py, |first| {
        run(py, options.jobs, &stop, |pool| {
            let (first, _) = prepare(card, kind, first, &tensor.labels, false)?;
            pool.install(|| choice.resolve(&Solo, kind, &first, options.patterns, options.seed, &stop))
        })
    })?;
    let chosen = chosen.map_err(py_error)?;
    let reason = chosen.reason.clone().unwrap_or_default();
    Ok((chosen, reason))
}

/// Returns a learner for the first tensor, after the recipe. One of the exact model has the patterns that are found in
/// it; one of the counts model finds them when it learns. `of_counts` is as in [`Options::discover_params`].
pub(crate) fn new_learner(
    first: &tensornoodl::Tensor<'_>,
    options: &Options,
    params: &Params,
    kind: ModelKind,
    (of_counts, seed, stop): (Option<usize>, u64, &Stop),
) -> Result<Learner, tensornoodl::Error> {
    let (params, search) = (params.clone(), options.discover_params(of_counts, seed, stop));
    match kind {
        ModelKind::Counts => Learner::for_counts(first.shape().features, params, search),
        ModelKind::Exact => Learner::from_tensor(Arc::new(Solo), first, params, search, options.stream),
    }
}

/// Returns a learner for the first tensor of a new model.
pub(crate) fn find_learner(
    py: Python<'_>,
    tensor: &Tensor,
    options: &Options,
    params: &Params,
    card: &Card,
    (kind, of_counts): (ModelKind, Option<usize>),
) -> PyResult<Learner> {
    let stop = Stop::default();
    let learner: Result<Learner, tensornoodl_data::Error> = tensor.with(py, |first| {
        run(py, options.jobs, &stop, |pool| {
            let (first, _) = prepare(card, kind, first, &tensor.labels, options.polish)?;
            let how = (of_counts, options.seed, &stop);
            Ok(pool.install(|| new_learner(&first, options, params, kind, how))?)
        })
    })?;
    learner.map_err(py_error)
}
