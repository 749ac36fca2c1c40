//! A model: patterns, the factors of every step, and labels. It is what the model file holds.

use std::ffi::CString;
use std::path::PathBuf;
use std::sync::RwLock;

use numpy::{IntoPyArray, PyArray1, PyArray2};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rayon::ThreadPool;
use tensornoodl::{Learner, ModelKind, Params, Passes, Rule, Stop};
use tensornoodl_data::{Axis, Card, Evidence, Recipe, RecipeChoice, Repeat, files, model_name};

use crate::arrays::{DenseFactors, dense_factors, dictionary, known_or_nan, patterns};
use crate::begin::{choose_recipe, continue_learner, find_learner, new_card, new_learner};
use crate::codes::Codes;
use crate::errors::{internal_error, py_error};
use crate::events::Events;
use crate::labels::Labels;
use crate::options::{Options, Pickled};
use crate::prepare::{learned_tensor, moved, place, prepare};
use crate::run::{read, run};
use crate::surprises::{Row, check_known, judge, row};
use crate::tensor::Tensor;
use crate::verdict::{instabilities, warnings};

/// A model: patterns, the factors of every step, labels, and the origin of the data. It is what the model file holds.
#[pyclass(frozen, module = "tensornoodl._core")]
pub(crate) struct Model {
    model: RwLock<tensornoodl_data::Model>,
    reasons: Reasons,
}

/// Why it is a model of counts or an exact one, and why it has its recipe: ends of sentences that begin with "because".
type Reasons = (String, String);

/// The reason for the model and the recipe in a file.
const IN_FILE: &str = "the model file has it";

/// The reason for the model and the recipe of a model that continues another one.
const FROM_INIT: &str = "init was learned with it";

impl Model {
    fn new(model: tensornoodl_data::Model, reasons: Reasons) -> Model {
        Model { model: RwLock::new(model), reasons }
    }

    /// Returns a model that has not learned yet. `evidence` is that for its number of patterns, if there is any.
    ///
    /// # Errors
    /// If the patterns have another number of features than the tensor.
    fn before_first_step(
        learner: Learner,
        card: Card,
        reasons: Reasons,
        evidence: Option<Evidence>,
    ) -> PyResult<Model> {
        let features = learner.dictionary().features();
        if features != card.features.len() {
            let error = tensornoodl::Error::Features { tensor: card.features.len(), dictionary: features };
            return Err(py_error(error));
        }
        let mut model = tensornoodl_data::Model::with_card(learner, card);
        model.evidence = evidence;
        Ok(Model::new(model, reasons))
    }

    /// Reads the model. Threads share it: several may read at a time, and they wait while another thread learns.
    fn read<T>(
        &self,
        py: Python<'_>,
        view: impl FnOnce(&tensornoodl_data::Model) -> PyResult<T>,
    ) -> PyResult<T> {
        read(py, &self.model, view)
    }
}

/// Converts the record of a step to a dictionary.
fn record<'py>(
    py: Python<'py>,
    record: &tensornoodl_data::Record,
    label: &str,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("step", label)?;
    dict.set_item("fibers", record.fibers)?;
    dict.set_item("fit", record.fit)?;
    dict.set_item("change", record.change)?;
    dict.set_item("mean_code_size", record.mean_code_size)?;
    dict.set_item("passes", record.passes)?;
    dict.set_item("patterns", record.patterns)?;
    dict.set_item("found", record.found)?;
    dict.set_item("lost", record.lost)?;
    dict.set_item("retired", record.retired)?;
    dict.set_item("returned", record.returned.len())?;
    let surprises: Vec<Row> = record.surprises.iter().map(|it| row(label, it)).collect();
    dict.set_item("surprises", surprises)?;
    Ok(dict)
}

/// Makes a label distinct from those of the other steps: appends " (2)", " (3)" and so on, if necessary.
fn distinct(label: String, others: &[String]) -> String {
    let mut names =
        (1..).map(|number| if number == 1 { label.clone() } else { format!("{label} ({number})") });
    names.find(|name| !others.contains(name)).unwrap_or_default()
}

/// Returns the share of the non-zero values of a tensor that are negative.
fn negative_share(tensor: &tensornoodl::Tensor<'_>) -> f64 {
    let values = (0..tensor.fibers()).flat_map(|fiber| tensor.entries(fiber)).filter(|entry| entry.1 != 0.0);
    let (all, below) =
        values.fold((0, 0), |(all, below), entry| (all + 1, below + usize::from(entry.1 < 0.0)));
    below as f64 / all.max(1) as f64
}

/// Learns from a tensor. Rows, cols and the step that are new to the model get their labels in the card. Returns the
/// number of entries that were left out because the model does not know their features, and what there is to say
/// about the polish.
///
/// If the step fails, the card may keep the new labels; [`undo_labels`] removes them.
fn learn_step(
    model: &mut tensornoodl_data::Model,
    tensor: tensornoodl::Tensor<'_>,
    labels: &Labels,
    (params, polish): (Params, bool),
    label: Option<String>,
    pool: &ThreadPool,
) -> Result<(usize, Option<String>), tensornoodl_data::Error> {
    let card = &mut model.card;
    let places = place(card, labels);
    card.steps.truncate(card.history.len());
    let label = label.unwrap_or_else(|| (card.history.len() + 1).to_string());
    card.steps.push(distinct(label, &card.steps));
    let kind = model.learner.kind();
    let negative = if polish { negative_share(&tensor) } else { 0.0 };
    let (tensor, left_out) = prepare(card, kind, tensor, labels, polish)?;
    model.learner.set_params(params)?;
    let tensor = moved(&tensor, &model.card, &places)?;
    pool.install(|| model.learn(&tensor))?;
    let note = match polish.then(|| pool.install(|| model.polish(&tensor))) {
        None => None,
        // The patterns stay as they were learned.
        Some(Err(error)) => Some(format!("not polished: {error}")),
        Some(Ok(_)) if negative == 0.0 => None,
        Some(Ok(_)) => Some(format!("{:.1} % of the values are negative; they count as 0", 100.0 * negative)),
    };
    Ok((left_out, note))
}

/// Removes the labels that a failed step has added to a card that had these numbers of rows and cols.
fn undo_labels(card: &mut Card, rows: usize, cols: usize) {
    card.steps.pop();
    card.rows.truncate(rows);
    card.cols.truncate(cols);
    card.row_groups.truncate(rows);
    card.col_groups.truncate(cols);
}

/// Returns a recipe as the estimator names it: None for none.
fn recipe_name(recipe: &Recipe) -> Option<String> {
    (*recipe != Recipe::default()).then(|| recipe.to_string())
}

/// Checks that the stability of a model can be measured with this number of tensors.
fn check_steps(model: &tensornoodl_data::Model, tensors: usize) -> PyResult<()> {
    let steps = model.card.history.len();
    if tensors != steps {
        let text = format!(
            "{tensors} tensors are given, the model has learned from {steps}: stability needs all of them, in their order"
        );
        return Err(PyValueError::new_err(text));
    }
    let learner = &model.learner;
    let given = learner.kind() == ModelKind::Exact
        && learner.params().rule == Rule::Adaptive
        && learner.dictionary().patterns() > 0
        && learner.evidence().is_empty();
    if given || learner.steps() != steps as u64 {
        let text = "the model began with init: stability needs a model whose patterns were all found in its own data";
        return Err(PyValueError::new_err(text));
    }
    Ok(())
}

#[pymethods]
impl Model {
    /// A model with the patterns of `start`, or with patterns that are found in the first tensor. It has not learned
    /// from the tensor yet.
    #[staticmethod]
    #[pyo3(signature = (tensor, options, recipe, start=None, events=None))]
    fn begin(
        py: Python<'_>,
        tensor: &Tensor,
        options: Options,
        recipe: Option<&str>,
        start: Option<&Bound<'_, PyAny>>,
        events: Option<&Events>,
    ) -> PyResult<Model> {
        let params = options.params()?;
        let choice: RecipeChoice = recipe.unwrap_or_default().parse().map_err(py_error)?;
        let mut card = new_card(tensor, events);
        card.seed = options.seed;
        let earlier = start.and_then(|start| start.cast::<Model>().ok());
        let kind_of_start = match (start, earlier) {
            (_, Some(earlier)) => {
                let kind = earlier.get().read(py, |earlier| Ok(earlier.learner.kind()))?;
                Some((kind, FROM_INIT.into()))
            }
            (Some(_), None) => Some((ModelKind::Exact, "init has patterns of unit length".into())),
            (None, None) => None,
        };
        let query = tensor.cells.as_ref().map(|_| &card.query);
        // The recipe of an earlier model is compared with the given one below.
        let recipe = if earlier.is_some() { Recipe::default() } else { choice.given() };
        let (kind, reason) = options.choose(kind_of_start, query, &recipe)?;
        if let Some(earlier) = earlier {
            let learner =
                earlier.get().read(py, |earlier| continue_learner(earlier, params, &choice, &mut card))?;
            return Model::before_first_step(learner, card, (reason, FROM_INIT.into()), None);
        }
        let (chosen, recipe_reason) = choose_recipe(py, tensor, &options, &choice, &card, kind)?;
        card.recipe = chosen.recipe;
        let (of_counts, evidence) = chosen.patterns.unzip();
        let learner = match start {
            Some(start) => Learner::new(dictionary(start)?, params).map_err(py_error)?,
            None => find_learner(py, tensor, &options, &params, &card, (kind, of_counts))?,
        };
        Model::before_first_step(learner, card, (reason, recipe_reason), evidence)
    }

    /// Learn from a tensor. Return the number of entries that were left out because the model does not know their
    /// features, and what there is to say about the polish. If the step fails or is interrupted, the model stays as
    /// it was.
    #[pyo3(signature = (tensor, options, label=None))]
    fn learn(
        &self,
        py: Python<'_>,
        tensor: &Tensor,
        options: Options,
        label: Option<String>,
    ) -> PyResult<(usize, Option<String>)> {
        let (params, stop) = (options.params()?, Stop::default());
        let kind = self.read(py, |model| Ok(model.learner.kind()))?;
        options.check_model(kind, "the patterns so far were learned with it")?;
        tensor.with(py, |input| {
            let work = |pool: &ThreadPool| {
                let model = &mut *self.model.write().map_err(|error| error.to_string())?;
                model.learner.set_stop(stop.clone());
                let params_before = model.learner.params().clone();
                let (rows, cols) = (model.card.rows.len(), model.card.cols.len());
                let learned = learn_step(model, input, &tensor.labels, (params, options.polish), label, pool);
                if learned.is_err() {
                    model.learner.set_params(params_before).map_err(|error| error.to_string())?;
                    undo_labels(&mut model.card, rows, cols);
                }
                Ok(learned)
            };
            run(py, options.jobs, &stop, work)?
                .map_err(|error: String| internal_error(error))?
                .map_err(py_error)
        })
    }

    /// The codes of a tensor, and the number of entries that were left out because the model does not know their
    /// features. The model does not change.
    fn encode(&self, py: Python<'_>, tensor: &Tensor, jobs: usize) -> PyResult<(Codes, usize)> {
        let stop = Stop::default();
        tensor.with(py, |input| {
            let work = |pool: &ThreadPool| {
                let model = self.model.read().map_err(|error| error.to_string())?;
                let prepared = prepare(&model.card, model.learner.kind(), input, &tensor.labels, false);
                let encode = |tensor: &tensornoodl::Tensor<'_>| model.learner.encode_until(&stop, tensor);
                Ok(prepared.and_then(|(tensor, left_out)| Ok((pool.install(|| encode(&tensor))?, left_out))))
            };
            let coded = run(py, jobs, &stop, work)?.map_err(|error: String| internal_error(error))?;
            let (codes, left_out) = coded.map_err(py_error)?;
            Ok((Codes { codes, labels: tensor.labels.clone(), dims: tensor.dims.clone() }, left_out))
        })
    }

    /// The tensor that codes stand for.
    fn decode(&self, py: Python<'_>, codes: &Codes) -> PyResult<Tensor> {
        let (tensor, features) = self.read(py, |model| {
            let tensor = py.detach(|| model.learner.decode(&codes.codes)).map_err(py_error)?;
            Ok((tensor, model.card.features.clone()))
        })?;
        let [_, rows, cols] = &*codes.labels.names;
        let labels = Labels::given([features, rows.clone(), cols.clone()]);
        Tensor::new(py, tensor, labels, codes.dims.clone(), None)
    }

    /// How unlikely the events of each place of a tensor are as those of the next step, the worst place first. `step` is
    /// the label of the step. Also return the number of entries that were left out because the model does not know
    /// their features.
    fn surprises(
        &self,
        py: Python<'_>,
        tensor: &Tensor,
        step: &str,
        jobs: usize,
    ) -> PyResult<(Vec<Row>, usize)> {
        if self.read(py, |model| Ok(model.learner.kind()))? == ModelKind::Exact {
            let text = "surprises need the counts model, and this one is exact; if the values count events, use model='counts'";
            return Err(PyValueError::new_err(text));
        }
        self.read(py, |model| check_known(model, &tensor.labels))?;
        let judged = tensor.with(py, |input| {
            run(py, jobs, &Stop::default(), |pool: &ThreadPool| {
                let model = self.model.read().map_err(|error| error.to_string())?;
                Ok(pool.install(|| judge(&model, input, &tensor.labels)))
            })
        });
        let judged = judged?.map_err(|error: String| internal_error(error))?;
        let (places, left_out) = judged.map_err(py_error)?;
        Ok((places.iter().map(|it| row(step, it)).collect(), left_out))
    }

    /// What is doubtful about the model, and what to try.
    fn warnings(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.read(py, |model| Ok(warnings(model)))
    }

    /// Steps in which something changed, and patterns that are not seen any more.
    fn news(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.read(py, |model| Ok(model.news()))
    }

    /// Learn again from the tensors of all steps, with other seeds and from halves of the places, and keep what was
    /// found. Return what is doubtful about it, and what to try.
    fn measure_stability(
        &self,
        py: Python<'_>,
        tensors: Vec<Py<Tensor>>,
        options: Options,
        seeds: usize,
    ) -> PyResult<Vec<String>> {
        let (params, stop) = (options.params()?, Stop::default());
        let tensors: Vec<tensornoodl::Tensor<'static>> = self.read(py, |model| {
            options.check_model(model.learner.kind(), "the patterns so far were learned with it")?;
            check_steps(model, tensors.len())?;
            let step = |(step, tensor): (usize, &Py<Tensor>)| {
                let tensor = tensor.get();
                tensor.with(py, |input| learned_tensor(model, step, input, &tensor.labels, options.polish))
            };
            tensors.iter().enumerate().map(step).collect()
        })?;
        let work = |pool: &ThreadPool| {
            let model = &mut *self.model.write().map_err(|error| error.to_string())?;
            let kind = model.learner.kind();
            let begin = |seed: u64, of_counts: Option<usize>, first: &tensornoodl::Tensor<'_>| {
                let mut learner = new_learner(first, &options, &params, kind, (of_counts, seed, &stop))?;
                learner.set_stop(stop.clone());
                Ok(learner)
            };
            let tensor = |step: usize| Ok(tensors[step].clone());
            let measured =
                pool.install(|| model.measure_stability(seeds, options.polish, begin, tensor).map(drop));
            Ok(measured.map(|()| instabilities(model)))
        };
        run(py, options.jobs, &stop, work)?.map_err(|error: String| internal_error(error))?.map_err(py_error)
    }

    /// What repeated learning found, if that was measured: seed, number of patterns and agreement of each repetition,
    /// the mean agreement of the seeds, the numbers of patterns of the halves, their agreement, and a sentence.
    #[expect(clippy::type_complexity, reason = "the fields of a class")]
    fn stability(
        &self,
        py: Python<'_>,
    ) -> PyResult<Option<(Vec<(u64, usize, f64)>, Option<f64>, (usize, usize), f64, String)>> {
        self.read(py, |model| {
            let stability = model.evidence.as_ref().and_then(|evidence| evidence.stability.as_ref());
            let repeat = |it: &Repeat| (it.seed, it.patterns, it.agreement);
            Ok(stability.map(|it| {
                let seeds = it.seeds.iter().map(repeat).collect();
                (seeds, it.seeds_agreement(), it.halves.into(), it.halves_agreement, it.sentence())
            }))
        })
    }

    /// The name of the model, `counts` or `exact`, and the reason for it.
    fn choice(&self, py: Python<'_>) -> PyResult<(&'static str, &str)> {
        self.read(py, |model| Ok((model_name(model.learner.kind()), &*self.reasons.0)))
    }

    /// The recipe, or None for none, and the reason for it.
    fn recipe(&self, py: Python<'_>) -> PyResult<(Option<String>, &str)> {
        self.read(py, |model| Ok((recipe_name(&model.card.recipe), &*self.reasons.1)))
    }

    /// The patterns (m x n).
    fn patterns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        self.read(py, |model| patterns(py, model.learner.dictionary()))
    }

    /// The numbers of features, rows, cols, patterns and steps.
    fn lengths(&self, py: Python<'_>) -> PyResult<(usize, usize, usize, usize, usize)> {
        self.read(py, |model| {
            let card = &model.card;
            let patterns = model.learner.dictionary().patterns();
            Ok((card.features.len(), card.rows.len(), card.cols.len(), patterns, card.history.len()))
        })
    }

    /// B, C, and for each pattern the share of its energy that they hold, of a step; steps count from 0.
    fn factors<'py>(&self, py: Python<'py>, step: usize) -> PyResult<DenseFactors<'py>> {
        self.read(py, |model| {
            let lengths =
                [model.card.rows.len(), model.card.cols.len(), model.learner.dictionary().patterns()];
            let of_step = model.factors.get(step);
            dense_factors(
                py,
                of_step.ok_or_else(|| PyValueError::new_err(format!("there is no step {step}")))?,
                lengths,
            )
        })
    }

    /// The nonzero factors of all steps: axis (0 rows, 1 cols), step, pattern and index of each entry, and its value.
    #[expect(clippy::type_complexity, reason = "five columns of a table")]
    fn entries<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<([Bound<'py, PyArray1<i64>>; 4], Bound<'py, PyArray1<f64>>)> {
        self.read(py, |model| {
            let (mut columns, mut values): ([Vec<i64>; 4], Vec<f64>) = Default::default();
            for (step, factors) in model.factors.iter().enumerate() {
                for (axis, factor) in [&factors.rows, &factors.cols].into_iter().enumerate() {
                    for (pattern, column) in factor.columns().enumerate() {
                        for &(index, value) in column {
                            let at = [axis as i64, step as i64, pattern as i64, i64::from(index)];
                            columns.iter_mut().zip(at).for_each(|(column, at)| column.push(at));
                            values.push(value);
                        }
                    }
                }
            }
            Ok((columns.map(|column| column.into_pyarray(py)), values.into_pyarray(py)))
        })
    }

    /// Labels of the features, the rows, the cols and the steps.
    fn labels(&self, py: Python<'_>) -> PyResult<[Vec<String>; 4]> {
        self.read(py, |model| {
            let card = &model.card;
            let steps = card.steps[..card.history.len()].to_vec();
            Ok([card.features.clone(), card.rows.clone(), card.cols.clone(), steps])
        })
    }

    /// The expressions of the feature, row and col axes, such as ``month(time)``.
    fn axes(&self, py: Python<'_>) -> PyResult<(String, String, String)> {
        self.read(py, |model| {
            let query = &model.card.query;
            Ok((query.feature.to_string(), query.row.to_string(), query.col.to_string()))
        })
    }

    /// The kind of picture of a pattern; for a grid also its numbers of cells across and up, and its bounds.
    #[expect(clippy::type_complexity, reason = "a name and what a grid has")]
    fn kind(&self, py: Python<'_>) -> PyResult<(&'static str, Option<((usize, usize), [(f64, f64); 2])>)> {
        self.read(py, |model| {
            Ok(match &model.card.query.feature {
                Axis::Column(_) => ("bars", None),
                Axis::Time(tensornoodl_data::Unit::WeekHour, _) => ("week", None),
                Axis::Time(..) | Axis::Bin(..) => ("line", None),
                Axis::Grid(grid) => {
                    let (across, up) = grid.cells;
                    let whole = [(0.0, across as f64), (0.0, up as f64)];
                    ("grid", Some((grid.cells, grid.bounds.unwrap_or(whole))))
                }
            })
        })
    }

    /// The parameters of the estimator that the model file holds.
    fn told<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.read(py, |model| {
            let (params, dict) = (model.learner.params(), PyDict::new(py));
            dict.set_item("model", model_name(model.learner.kind()))?;
            dict.set_item("recipe", recipe_name(&model.card.recipe))?;
            dict.set_item("random_state", model.card.seed)?;
            let eta_a = match params.rule {
                Rule::Paper { eta_a } => Some(eta_a),
                Rule::Adaptive => None,
            };
            dict.set_item("eta_a", eta_a)?;
            let passes = match params.passes {
                Passes::Fixed(passes) if passes > 1 => passes.into_bound_py_any(py)?,
                Passes::Auto => "auto".into_bound_py_any(py)?,
                _ => py.None().into_bound(py),
            };
            dict.set_item("passes", passes)?;
            dict.set_item("eta_x", params.eta_x)?;
            dict.set_item("tau", params.tau)?;
            dict.set_item("code_floor", params.code_floor)?;
            dict.set_item("forgetting", params.forgetting)?;
            Ok(dict)
        })
    }

    /// The records of all steps.
    fn history<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.read(py, |model| {
            let card = &model.card;
            card.history.iter().zip(&card.steps).map(|(step, label)| record(py, step, label)).collect()
        })
    }

    /// The record of the last step, or None.
    fn last<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.read(py, |model| {
            let card = &model.card;
            let last = card.history.last().zip(card.steps.get(card.history.len().wrapping_sub(1)));
            last.map(|(step, label)| record(py, step, label)).transpose()
        })
    }

    /// The groups of rows and cols that share a pattern in the last step, or for counts in the latest steps: the number
    /// and the share of each, its rows with factors, its cols with factors, and the known group that most members
    /// belong to, with the number of other members and of all members.
    #[expect(clippy::type_complexity, reason = "a row of a table")]
    fn groups(
        &self,
        py: Python<'_>,
        pattern: usize,
    ) -> PyResult<Vec<(usize, f64, Vec<(String, f64)>, Vec<(String, f64)>, Option<(String, usize, usize)>)>>
    {
        self.read(py, |model| {
            let named = |members: Vec<(usize, f64)>, labels: &[String]| {
                members.into_iter().map(|(index, value)| (labels[index].clone(), value)).collect()
            };
            // The groups of counts are found when they are asked for first.
            let groups = py.detach(|| model.groups(pattern)).into_iter().map(|group| {
                let (rows, cols) = (named(group.rows, &model.card.rows), named(group.cols, &model.card.cols));
                let known = group.known.map(|known| (known.name, known.others, known.size));
                (group.number, group.share, rows, cols, known)
            });
            Ok(groups.collect())
        })
    }

    /// The rows (axis 0) or cols (axis 1) that take part in a pattern over all steps, strongest first, with their
    /// strengths.
    fn leading(&self, py: Python<'_>, pattern: usize, axis: usize) -> PyResult<Vec<(String, f64)>> {
        self.read(py, |model| {
            let (leading, labels) = match axis {
                0 => (model.leading(pattern, |factors| &factors.rows), &model.card.rows),
                _ => (model.leading(pattern, |factors| &factors.cols), &model.card.cols),
            };
            Ok(leading.into_iter().map(|(index, weight)| (labels[index].clone(), weight)).collect())
        })
    }

    /// For every pattern that was found in the data, how clear it was.
    fn evidence<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        self.read(py, |model| {
            let mut evidence = model.learner.evidence();
            // The number of patterns may have been determined together with the recipe, before the learner.
            if let Some(before) = model.evidence.as_ref().filter(|_| evidence.iter().all(|it| *it == 0.0)) {
                evidence.fill(before.significance());
            }
            Ok(evidence.into_pyarray(py))
        })
    }

    /// For every pattern, its expected distance from the true one, relative to its length. NaN where it is not known.
    fn errors<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        self.read(py, |model| Ok(known_or_nan(&py.detach(|| model.errors())).into_pyarray(py)))
    }

    /// The ladder of the last decision on the number of patterns: the number of patterns of each rung, what it gains
    /// over the rung below, and the standard error of the gain.
    fn ladder(&self, py: Python<'_>) -> PyResult<Vec<(usize, f64, f64)>> {
        self.read(py, |model| {
            let rungs = model.evidence.iter().flat_map(|evidence| &evidence.rungs);
            Ok(rungs.map(|rung| (rung.patterns, rung.gain, rung.error)).collect())
        })
    }

    /// Write the model file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.read(py, |model| py.detach(|| model.save(&path)).map_err(py_error))
    }

    /// Read a model file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Model> {
        let model = py.detach(|| tensornoodl_data::Model::load(&path)).map_err(py_error)?;
        if let Some(note) = model.note() {
            let message = CString::new(format!("{}: {note}", path.display())).map_err(internal_error)?;
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &message, 1)?;
        }
        Ok(Model::new(model, (IN_FILE.into(), IN_FILE.into())))
    }

    /// Write an HTML page about the model.
    fn report(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.read(py, |model| {
            let page = py.detach(|| tensornoodl_report::html(model)).map_err(internal_error)?;
            files::write(&path, page).map_err(py_error)
        })
    }

    /// The patterns with the largest energy as an HTML fragment.
    fn cards(&self, py: Python<'_>, most: usize) -> PyResult<String> {
        self.read(py, |model| tensornoodl_report::cards(model, most).map_err(internal_error))
    }

    /// Supports pickle and copy, in the format of the model file.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Pickled<'py, &Reasons>> {
        let bytes = self.read(py, |model| model.to_bytes().map_err(py_error))?;
        let from = py.get_type::<Model>().getattr("from_bytes")?;
        Ok((from, (PyBytes::new(py, &bytes), &self.reasons)))
    }

    /// The model that ``__reduce__`` serialized.
    #[staticmethod]
    fn from_bytes(bytes: &[u8], reasons: Reasons) -> PyResult<Model> {
        let model = tensornoodl_data::Model::from_bytes(bytes, "the pickled model").map_err(py_error)?;
        Ok(Model::new(model, reasons))
    }
}
