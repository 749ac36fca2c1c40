//! A model: patterns, factors of every step, labels.

use std::path::PathBuf;
use std::sync::{Arc, RwLock};

use numpy::{IntoPyArray, PyArray1, PyArray2, PyArrayMethods};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use rayon::ThreadPool;
use tensornoodl::parallel::Solo;
use tensornoodl::{Dictionary, DiscoverParams, Factors, Learner, Params, Passes, Rule, Sparse, Stop};
use tensornoodl_data::{Axis, Card, Query, Recipe, Value, align, files};

use crate::codes::Codes;
use crate::events::Events;
use crate::run::{read, run};
use crate::tensor::{Labels, Tensor, contiguous};
use crate::{mistake, wrong};

/// What a learner is told, as Python has it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    /// None: as many as the data shows.
    patterns: Option<usize>,
    /// None: as long as they help.
    passes: Option<usize>,
    eta_a: Option<f64>,
    eta_x: f64,
    tau: f64,
    code_floor: f64,
    forgetting: f64,
    seed: u64,
    /// Whether more tensors follow.
    pub(crate) stream: bool,
    /// Threads; 0: one for each core.
    pub(crate) jobs: usize,
}

impl Options {
    pub(crate) fn params(&self) -> PyResult<Params> {
        let params = Params {
            eta_x: self.eta_x,
            tau: self.tau,
            code_floor: self.code_floor,
            forgetting: self.forgetting,
            rule: self.eta_a.map_or(Rule::Adaptive, |eta_a| Rule::Paper { eta_a }),
            passes: match self.passes {
                Some(passes) => Passes::Fixed(passes),
                None if self.stream => Passes::Auto,
                None => Passes::Exhaust,
            },
            ..Params::default()
        };
        params.check().map_err(wrong)?;
        Ok(params)
    }

    pub(crate) fn grow(&self, stop: &Stop) -> DiscoverParams {
        DiscoverParams {
            min_patterns: self.patterns.unwrap_or(0),
            max_patterns: self.patterns,
            seed: self.seed,
            stop: stop.clone(),
            ..DiscoverParams::default()
        }
    }
}

/// Patterns that are given, m x n.
pub(crate) fn dictionary(patterns: &Bound<'_, PyAny>) -> PyResult<Dictionary> {
    let array = contiguous(patterns)?;
    let array = array.readonly();
    let features = array.as_array().ncols();
    Dictionary::from_columns(features, array.as_slice()?.to_vec()).map_err(wrong)
}

/// m x n.
pub(crate) fn patterns<'py>(py: Python<'py>, dictionary: &Dictionary) -> PyResult<Bound<'py, PyArray2<f64>>> {
    PyArray1::from_slice(py, dictionary.values()).reshape([dictionary.patterns(), dictionary.features()])
}

/// The rows of a sparse matrix as SciPy keeps them: where each begins, in which columns it has values, and which.
pub(crate) type Compressed<'py> =
    (Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<f64>>);

/// Columns of ours are rows of theirs.
pub(crate) fn compressed<'py>(py: Python<'py>, matrix: &Sparse) -> Compressed<'py> {
    let (mut starts, mut indices, mut values) = (vec![0], Vec::new(), Vec::new());
    for column in matrix.columns() {
        indices.extend(column.iter().map(|entry| i64::from(entry.0)));
        values.extend(column.iter().map(|entry| entry.1));
        starts.push(values.len() as i64);
    }
    (starts.into_pyarray(py), indices.into_pyarray(py), values.into_pyarray(py))
}

/// Rows x patterns, dense.
fn dense<'py>(
    py: Python<'py>,
    matrix: &Sparse,
    rows: usize,
    patterns: usize,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    // NumPy raises where memory does not suffice.
    let array = py.import("numpy")?.call_method1("zeros", ((rows, patterns),))?;
    let array = array.cast_into::<PyArray2<f64>>()?;
    let mut values = array.try_readwrite()?;
    let mut view = values.as_array_mut();
    for (pattern, column) in matrix.columns().enumerate() {
        column.iter().for_each(|&(row, value)| view[[row as usize, pattern]] = value);
    }
    drop(values);
    Ok(array)
}

pub(crate) type DenseFactors<'py> =
    (Bound<'py, PyArray2<f64>>, Bound<'py, PyArray2<f64>>, Bound<'py, PyArray1<f64>>);

/// B (J x m), C (K x m), and the share of each pattern that they hold; patterns that were found later have none.
pub(crate) fn factors<'py>(
    py: Python<'py>,
    factors: &Factors,
    [rows, cols, patterns]: [usize; 3],
) -> PyResult<DenseFactors<'py>> {
    let mut shares = factors.rank_one.clone();
    shares.resize(patterns, 0.0);
    let (rows, cols) = (dense(py, &factors.rows, rows, patterns)?, dense(py, &factors.cols, cols, patterns)?);
    Ok((rows, cols, shares.into_pyarray(py)))
}

/// Patterns, factors of every step, and where they come from: what the model file holds.
#[pyclass(frozen, module = "tensornoodl._core")]
pub(crate) struct Model(RwLock<tensornoodl_data::Model>);

impl Model {
    fn new(model: tensornoodl_data::Model) -> Model {
        Model(RwLock::new(model))
    }

    /// Other threads may read between two steps.
    fn read<T>(
        &self,
        py: Python<'_>,
        look: impl FnOnce(&tensornoodl_data::Model) -> PyResult<T>,
    ) -> PyResult<T> {
        read(py, &self.0, look)
    }
}

/// What happened in a step, as Python has it.
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
    Ok(dict)
}

/// A label that no other step has.
fn distinct(label: String, others: &[String]) -> String {
    let mut names = (1..).map(|times| if times == 1 { label.clone() } else { format!("{label} ({times})") });
    names.find(|name| !others.contains(name)).unwrap_or_default()
}

/// What is made of a tensor before it is learned from or coded: the features of the model, and its recipe.
fn prepared<'a>(
    card: &Card,
    tensor: tensornoodl::Tensor<'a>,
    labels: &Labels,
) -> Result<(tensornoodl::Tensor<'a>, usize), tensornoodl_data::Error> {
    let features = &labels.names[0];
    let (tensor, lost) = if !labels.given[0] {
        // Numbers that no one gave stand for the features of the model, one by one.
        if features.len() != card.features.len() {
            let (tensor, dictionary) = (features.len(), card.features.len());
            return Err(tensornoodl::Error::Features { tensor, dictionary }.into());
        }
        (tensor, 0)
    } else if card.features == *features {
        (tensor, 0)
    } else {
        let known = |name: &String| card.features.contains(name);
        if !features.iter().any(known) {
            return Err(tensornoodl_data::Error::Axis {
                text: format!("a tensor with features {:?}, ...", features[0]),
                rule: format!("one with features that the model has: {:?}, ...", card.features[0]),
            });
        }
        align(&tensor, features, &card.features)?
    };
    let tensor = if card.recipe == Recipe::default() { tensor } else { card.recipe.apply(tensor)? };
    Ok((tensor, lost))
}

#[pymethods]
impl Model {
    /// The model that a first tensor suggests, before it has learned from it.
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
        let (params, stop) = (options.params()?, Stop::default());
        let told: Option<Recipe> = recipe.map(str::parse).transpose().map_err(wrong)?;
        let labels = (*tensor.labels.names).clone();
        let axes =
            tensor.dims.clone().unwrap_or_else(|| ["1", "2", "3"].map(|axis| Axis::Bin(axis.into(), 1.0)));
        let value = if tensor.dims.is_some() { Value::Count } else { Value::Sum("value".into()) };
        let mut card = match events {
            Some(events) => Card {
                table: events.table.clone(),
                tally: events.events.tally.clone(),
                row_groups: events.events.row_groups.clone(),
                col_groups: events.events.col_groups.clone(),
                ..Card::new(events.query.clone(), labels)
            },
            None => {
                let [feature, row, col] = axes;
                let query = Query {
                    feature,
                    row,
                    col,
                    step: None,
                    value,
                    average_over: None,
                    keep_rows: None,
                    filters: Vec::new(),
                    square: false,
                    names: None,
                    groups: None,
                };
                Card { table: "an array".into(), ..Card::new(query, labels) }
            }
        };
        (card.recipe, card.seed) = (told.clone().unwrap_or_default(), options.seed);
        let before = start.and_then(|start| start.cast::<Model>().ok());
        let learner = match (start, before) {
            (_, Some(before)) => before.get().read(py, |before| {
                if told.is_some_and(|told| told != before.card.recipe) {
                    let text = format!(
                        "init was learned with the recipe '{}', it must be the same: its patterns are of no use for another",
                        before.card.recipe
                    );
                    return Err(PyValueError::new_err(text));
                }
                (card.features, card.recipe) = (before.card.features.clone(), before.card.recipe.clone());
                let mut learner = before.learner.clone();
                match params.rule {
                    Rule::Adaptive => learner.set_params(params).map_err(wrong)?,
                    // The paper's step has no state to go on with.
                    Rule::Paper { .. } => {
                        learner =
                            Learner::new(learner.dictionary().clone(), params).map_err(wrong)?;
                    }
                }
                Ok(learner)
            })?,
            (Some(start), None) => {
                Learner::new(dictionary(start)?, params).map_err(wrong)?
            }
            (None, None) => tensor.with(py, |first| {
                let grow = options.grow(&stop);
                let learner = run(py, options.jobs, &stop, |pool| {
                    let (first, _) = prepared(&card, first, &tensor.labels)?;
                    Ok(pool.install(|| Learner::from_tensor(Arc::new(Solo), &first, params, grow, options.stream))?)
                })?;
                learner.map_err(|error: tensornoodl_data::Error| wrong(error))
            })?,
        };
        let features = learner.dictionary().features();
        if features != card.features.len() {
            let error = tensornoodl::Error::Features { tensor: card.features.len(), dictionary: features };
            return Err(wrong(error));
        }
        Ok(Model::new(tensornoodl_data::Model::with_card(learner, card)))
    }

    /// One step. Returns how many entries have features that the model does not know; they are left out.
    #[pyo3(signature = (tensor, options, label=None))]
    fn learn(
        &self,
        py: Python<'_>,
        tensor: &Tensor,
        options: Options,
        label: Option<String>,
    ) -> PyResult<usize> {
        let (params, stop) = (options.params()?, Stop::default());
        tensor.with(py, |input| {
            let work = |pool: &ThreadPool| {
                let model = &mut *self.0.write().map_err(|error| error.to_string())?;
                model.learner.set_stop(stop.clone());
                let told = model.learner.params().clone();
                let card = &mut model.card;
                let known = (card.rows.len(), card.cols.len());
                // Numbers that no one gave are those of the model, if it has as many.
                let [_, rows, cols] = &*tensor.labels.names;
                let same = |at: usize, labels: &Vec<String>, known: &Vec<String>| {
                    if !tensor.labels.given[at] && labels.len() == known.len() { known } else { labels }
                        .clone()
                };
                let (rows, cols) = (same(1, rows, &card.rows), same(2, cols, &card.cols));
                let [rows, cols] = card.place(&rows, &cols);
                card.steps.truncate(card.history.len());
                let label = label.unwrap_or_else(|| (card.history.len() + 1).to_string());
                card.steps.push(distinct(label, &card.steps));
                let (all_rows, all_cols) = (model.card.rows.len(), model.card.cols.len());
                let prepared = prepared(&model.card, input, &tensor.labels);
                let learned = prepared.and_then(|(tensor, lost)| {
                    let place = |place: &tensornoodl::Place| tensornoodl::Place {
                        row: rows[place.row as usize],
                        col: cols[place.col as usize],
                    };
                    let places: Vec<tensornoodl::Place> = tensor.places().iter().map(place).collect();
                    model.learner.set_params(params)?;
                    let tensor = tensor.moved(all_rows, all_cols, places)?;
                    pool.install(|| model.learn(&tensor))?;
                    Ok(lost)
                });
                if learned.is_err() {
                    // As if nothing had happened.
                    model.learner.set_params(told).map_err(|error| error.to_string())?;
                    model.card.steps.pop();
                    model.card.rows.truncate(known.0);
                    model.card.cols.truncate(known.1);
                    model.card.row_groups.truncate(known.0);
                    model.card.col_groups.truncate(known.1);
                }
                Ok(learned)
            };
            run(py, options.jobs, &stop, work)?.map_err(|error: String| mistake(error))?.map_err(wrong)
        })
    }

    /// Codes of a tensor; the model stays as it is. Also how many entries have features that it does not know.
    fn encode(&self, py: Python<'_>, tensor: &Tensor, jobs: usize) -> PyResult<(Codes, usize)> {
        let stop = Stop::default();
        tensor.with(py, |input| {
            let work = |pool: &ThreadPool| {
                let model = self.0.read().map_err(|error| error.to_string())?;
                let prepared = prepared(&model.card, input, &tensor.labels);
                let encode = |tensor: &tensornoodl::Tensor<'_>| model.learner.encode_until(&stop, tensor);
                Ok(prepared.and_then(|(tensor, lost)| Ok((pool.install(|| encode(&tensor))?, lost))))
            };
            let coded = run(py, jobs, &stop, work)?.map_err(|error: String| mistake(error))?;
            let (codes, lost) = coded.map_err(wrong)?;
            Ok((Codes { codes, labels: tensor.labels.clone(), dims: tensor.dims.clone() }, lost))
        })
    }

    /// The way back: what codes stand for.
    fn decode(&self, py: Python<'_>, codes: &Codes) -> PyResult<Tensor> {
        let (tensor, features) = self.read(py, |model| {
            let tensor = py.detach(|| model.learner.decode(&codes.codes)).map_err(wrong)?;
            Ok((tensor, model.card.features.clone()))
        })?;
        let [_, rows, cols] = &*codes.labels.names;
        let labels = Labels::given([features, rows.clone(), cols.clone()]);
        Tensor::new(py, tensor, labels, codes.dims.clone(), None)
    }

    /// A, m x n.
    fn patterns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        self.read(py, |model| patterns(py, model.learner.dictionary()))
    }

    /// (n, J, K), patterns, steps.
    fn lengths(&self, py: Python<'_>) -> PyResult<(usize, usize, usize, usize, usize)> {
        self.read(py, |model| {
            let card = &model.card;
            let patterns = model.learner.dictionary().patterns();
            Ok((card.features.len(), card.rows.len(), card.cols.len(), patterns, card.history.len()))
        })
    }

    /// B, C, and the share of each pattern that they hold, of a step from 0.
    fn factors<'py>(&self, py: Python<'py>, step: usize) -> PyResult<DenseFactors<'py>> {
        self.read(py, |model| {
            let lengths =
                [model.card.rows.len(), model.card.cols.len(), model.learner.dictionary().patterns()];
            let of_step = model.factors.get(step);
            factors(
                py,
                of_step.ok_or_else(|| PyValueError::new_err(format!("there is no step {step}")))?,
                lengths,
            )
        })
    }

    /// Factors of all steps where they are not zero: axis (0 rows, 1 cols), step, pattern, index and value of each entry.
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

    /// What the axes are made of: feature, row and col.
    fn axes(&self, py: Python<'_>) -> PyResult<(String, String, String)> {
        self.read(py, |model| {
            let query = &model.card.query;
            Ok((query.feature.to_string(), query.row.to_string(), query.col.to_string()))
        })
    }

    /// What a pattern is drawn as, and for a grid its cells across and up, and its bounds.
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

    /// What it was told, as the estimator has it.
    fn told<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.read(py, |model| {
            let (params, told) = (model.learner.params(), PyDict::new(py));
            let recipe = (model.card.recipe != Recipe::default()).then(|| model.card.recipe.to_string());
            told.set_item("recipe", recipe)?;
            told.set_item("random_state", model.card.seed)?;
            let eta_a = match params.rule {
                Rule::Paper { eta_a } => Some(eta_a),
                Rule::Adaptive => None,
            };
            told.set_item("eta_a", eta_a)?;
            let passes = match params.passes {
                Passes::Fixed(passes) if passes > 1 => passes.into_bound_py_any(py)?,
                Passes::Auto => "auto".into_bound_py_any(py)?,
                _ => py.None().into_bound(py),
            };
            told.set_item("passes", passes)?;
            told.set_item("eta_x", params.eta_x)?;
            told.set_item("tau", params.tau)?;
            told.set_item("code_floor", params.code_floor)?;
            told.set_item("forgetting", params.forgetting)?;
            Ok(told)
        })
    }

    /// What happened in every step.
    fn history<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        self.read(py, |model| {
            let card = &model.card;
            card.history.iter().zip(&card.steps).map(|(step, label)| record(py, step, label)).collect()
        })
    }

    /// And in the last one.
    fn last<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.read(py, |model| {
            let card = &model.card;
            let last = card.history.last().zip(card.steps.get(card.history.len().wrapping_sub(1)));
            last.map(|(step, label)| record(py, step, label)).transpose()
        })
    }

    /// Groups of rows and cols that share a pattern in the last step: share, rows with factors, cols with factors, and what most of
    /// them are known to be, with how many are not, of how many.
    #[expect(clippy::type_complexity, reason = "a row of a table")]
    fn groups(
        &self,
        py: Python<'_>,
        pattern: usize,
    ) -> PyResult<Vec<(f64, Vec<(String, f64)>, Vec<(String, f64)>, Option<(String, usize, usize)>)>> {
        self.read(py, |model| {
            let named = |members: Vec<(usize, f64)>, labels: &[String]| {
                members.into_iter().map(|(index, value)| (labels[index].clone(), value)).collect()
            };
            let groups = model.groups(pattern).into_iter().map(|group| {
                let (rows, cols) = (named(group.rows, &model.card.rows), named(group.cols, &model.card.cols));
                (group.share, rows, cols, group.known.map(|known| (known.name, known.others, known.size)))
            });
            Ok(groups.collect())
        })
    }

    /// Who takes part in a pattern, over all steps, strongest first: rows (0) or cols (1).
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
        self.read(py, |model| Ok(model.learner.evidence().into_pyarray(py)))
    }

    /// Writes the model file.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.read(py, |model| py.detach(|| model.save(&path)).map_err(wrong))
    }

    /// Reads a model file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf) -> PyResult<Model> {
        let model = py.detach(|| tensornoodl_data::Model::load(&path)).map_err(wrong)?;
        Ok(Model::new(model))
    }

    /// Writes a page about it.
    fn report(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.read(py, |model| {
            let page = py.detach(|| tensornoodl_report::html(model)).map_err(mistake)?;
            files::write(&path, page).map_err(wrong)
        })
    }

    /// Its first patterns as a piece of a page.
    fn cards(&self, py: Python<'_>, most: usize) -> PyResult<String> {
        self.read(py, |model| tensornoodl_report::cards(model, most).map_err(mistake))
    }

    /// For pickle and copy: as in the model file.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let bytes = self.read(py, |model| model.to_bytes().map_err(wrong))?;
        let from = py.get_type::<Model>().getattr("from_bytes")?;
        Ok((from, (PyBytes::new(py, &bytes),)))
    }

    /// The way back.
    #[staticmethod]
    fn from_bytes(bytes: &[u8]) -> PyResult<Model> {
        let model = tensornoodl_data::Model::from_bytes(bytes, "the pickled model").map_err(wrong)?;
        Ok(Model::new(model))
    }
}
