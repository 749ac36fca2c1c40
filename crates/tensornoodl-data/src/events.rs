//! Events in, labelled tensors out: rows of a table are counted or summed into cells (step, row, col, feature).
//!
//! A table is read once, sorted or not. Held are the labels, and the cells that are not empty: 40 bytes or so for each, however
//! many rows fall into it; with [`Query::average_over`] also the distinct values of that column at each place.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};

use rustc_hash::{FxHashMap, FxHashSet};
use tensornoodl::team::Solo;
use tensornoodl::{Place, Shape, Team, Tensor};

use crate::axis::Axis;
use crate::error::Error;
use crate::labels::{Collector, Labels, in_order, intern, number};
use crate::query::{Filter, Query, Value};

/// What was read, and what was left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// Rows of the table.
    pub events: u64,
    /// Rows that a filter left out.
    pub filtered: u64,
    /// Rows without a value in a column that is needed.
    pub missing: u64,
    /// Rows outside the bounds of a grid.
    pub outside: u64,
    /// Labels of the row axis that [`Query::keep_rows`] left out, and their rows of the table.
    pub dropped_labels: usize,
    /// The latter.
    pub dropped: u64,
}

impl Tally {
    /// Rows that count.
    pub fn used(&self) -> u64 {
        let left_out = [self.filtered, self.missing, self.outside, self.dropped];
        left_out.iter().fold(self.events, |used, out| used.saturating_sub(*out))
    }
}

/// A table, counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Events {
    /// Labels of the features.
    pub features: Labels,
    /// Labels of the rows.
    pub rows: Labels,
    /// Labels of the cols.
    pub cols: Labels,
    /// Labels of the steps, in order; none without a step axis.
    pub steps: Option<Labels>,
    /// What each row belongs to, and each col; empty where that is not known, and altogether unless asked for.
    pub row_groups: Vec<String>,
    /// The latter.
    pub col_groups: Vec<String>,
    /// What was read.
    pub tally: Tally,
    /// (step, row, col, feature) and value, in this order.
    cells: Vec<([u32; 4], f64)>,
}

impl Events {
    /// n, J and K.
    pub fn shape(&self) -> Shape {
        Shape {
            features: self.features.names.len(),
            rows: self.rows.names.len(),
            cols: self.cols.names.len(),
        }
    }

    /// Tensors of the stream.
    pub fn steps(&self) -> usize {
        self.steps.as_ref().map_or(1, |steps| steps.names.len())
    }

    /// Cells that are not empty.
    pub fn cells(&self) -> usize {
        self.cells.len()
    }

    /// Places that have cells, over all steps.
    pub fn fibers(&self) -> usize {
        self.cells.chunk_by(|a, b| a.0[..3] == b.0[..3]).count()
    }

    /// About how many bytes the largest tensor takes.
    pub fn bytes(&self) -> f64 {
        let steps = self.cells.chunk_by(|a, b| a.0[0] == b.0[0]);
        let fibers = steps.map(|cells| cells.chunk_by(|a, b| a.0[..3] == b.0[..3]).count()).max();
        8.0 * self.features.names.len() as f64 * fibers.unwrap_or(0) as f64
    }

    /// The sum over all cells.
    pub fn sum(&self) -> f64 {
        self.cells.iter().map(|cell| cell.1).sum()
    }

    /// Takes the features of a model, in their order; cells of others are left out. Returns how many.
    pub fn align(&mut self, names: &[String]) -> usize {
        let places: FxHashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
        let place: Vec<Option<u32>> =
            self.features.names.iter().map(|name| places.get(name.as_str()).copied()).collect();
        let before = self.cells.len();
        self.cells.retain_mut(|(key, _)| match place[key[3] as usize] {
            Some(place) => {
                key[3] = place;
                true
            }
            None => false,
        });
        self.cells.sort_unstable_by_key(|cell| cell.0);
        self.features.names = names.to_vec();
        before - self.cells.len()
    }

    /// The query that it was read by, with the bounds of grids as they turned out.
    pub fn resolve(&self, query: Query) -> Query {
        Query {
            feature: self.features.axis.clone(),
            row: self.rows.axis.clone(),
            col: self.cols.axis.clone(),
            step: self.steps.as_ref().map(|steps| steps.axis.clone()),
            ..query
        }
    }

    /// Gives rows and cols the labels of both.
    pub(crate) fn square(&mut self) {
        let mut names: Vec<String> = [self.rows.names.as_slice(), &self.cols.names].concat();
        in_order(&mut names, |name| name);
        names.dedup();
        let places: FxHashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
        let place =
            |old: &Labels| -> Vec<u32> { old.names.iter().map(|name| places[name.as_str()]).collect() };
        let (rows, cols) = (place(&self.rows), place(&self.cols));
        for (key, _) in &mut self.cells {
            (key[1], key[2]) = (rows[key[1] as usize], cols[key[2] as usize]);
        }
        // In the same order as before: in order they were, and are.
        self.cells.sort_unstable_by_key(|cell| cell.0);
        (self.rows.names, self.cols.names) = (names.clone(), names);
    }

    /// What rows and cols belong to.
    pub fn group(&mut self, known: &BTreeMap<String, String>) {
        let groups = |labels: &Labels| {
            labels.names.iter().map(|name| known.get(name).cloned().unwrap_or_default()).collect()
        };
        (self.row_groups, self.col_groups) = (groups(&self.rows), groups(&self.cols));
    }

    /// Names rows and cols; a label that has no name stays as it is, and one whose name is another's too stands beside it.
    pub fn name(&mut self, known: &BTreeMap<String, String>) {
        for labels in [&mut self.rows, &mut self.cols] {
            let mut times: FxHashMap<&str, usize> = FxHashMap::default();
            let named = |label: &String| known.get(label).map_or(label.clone(), Clone::clone);
            let names: Vec<String> = labels.names.iter().map(named).collect();
            names.iter().for_each(|name| *times.entry(name).or_default() += 1);
            let unique = |(name, label): (&String, &String)| match times[name.as_str()] {
                1 => name.clone(),
                _ => format!("{name} ({label})"),
            };
            labels.names = names.iter().zip(&labels.names).map(unique).collect();
        }
    }

    /// One tensor of the stream, from 0.
    pub fn tensor(&self, step: usize) -> Result<Tensor<'static>, Error> {
        let first = self.cells.partition_point(|cell| (cell.0[0] as usize) < step);
        let cells = self.cells[first..].iter().take_while(|cell| cell.0[0] as usize == step);
        let entries: Vec<(usize, usize, usize, f64)> = cells
            .map(|&([_, row, col, feature], value)| (feature as usize, row as usize, col as usize, value))
            .collect();
        Ok(Tensor::from_triplets(self.shape(), &entries)?)
    }
}

/// Where a field stands, for messages.
#[derive(Debug, Clone, Copy)]
pub struct At<'a> {
    /// The file.
    pub file: &'a str,
    /// The line, or the row where a file has no lines; from 1.
    pub line: u64,
}

/// Counts events as they come.
#[derive(Debug)]
pub struct Counter {
    query: Query,
    /// Names of the columns that are read, each once, and for each axis where among them.
    columns: Vec<String>,
    axes: Vec<Collector>,
    value: Option<usize>,
    average_over: Option<usize>,
    filters: Vec<(Vec<usize>, Filter)>,
    /// Columns that must have a value: the first ones.
    needed: usize,
    averaged_labels: FxHashMap<Box<str>, u32>,
    tally: Tally,
    /// Events that are not in the sums yet.
    batch: Vec<Event>,
    /// Adds batches up, once there are some: finding cells in memory takes as long as reading the table does.
    adder: Option<(SyncSender<Vec<Event>>, JoinHandle<Sums>)>,
    team: Arc<dyn Team>,
    /// Whether places are known as they are read; points of a grid find their cells in the end.
    placed: bool,
}

/// Events of a batch.
const BATCH: usize = 1 << 14;

/// The cell of an event, its value, and what is averaged over.
#[derive(Debug)]
struct Event {
    cell: [u32; 4],
    value: f64,
    averaged: Option<u32>,
}

/// What fell into each cell: sum and count; and at each place, the distinct values of what is averaged over.
#[derive(Debug, Default)]
struct Sums {
    cells: FxHashMap<[u32; 4], (f64, u64)>,
    averaged: FxHashSet<([u32; 3], u32)>,
}

impl Sums {
    fn add(&mut self, batch: Vec<Event>) {
        for Event { cell: at, value, averaged } in batch {
            let cell = self.cells.entry(at).or_default();
            *cell = (cell.0 + value, cell.1 + 1);
            self.averaged.extend(averaged.map(|label| ([at[0], at[1], at[2]], label)));
        }
    }
}

impl Counter {
    /// Counts for a query.
    pub fn new(query: Query) -> Counter {
        let mut columns: Vec<String> = Vec::new();
        let place = |columns: &mut Vec<String>, name: &str| {
            columns.iter().position(|known| known == name).unwrap_or_else(|| {
                columns.push(name.into());
                columns.len() - 1
            })
        };
        let axes = query.step.iter().chain([&query.row, &query.col, &query.feature]);
        let axes = axes.map(|axis| {
            let fields = axis.columns().into_iter().map(|name| place(&mut columns, name)).collect();
            Collector::new(axis.clone(), fields)
        });
        let axes = axes.collect();
        let value = match &query.value {
            Value::Count => None,
            Value::Sum(column) | Value::Mean(column) => Some(place(&mut columns, column)),
        };
        let average_over = query.average_over.as_deref().map(|name| place(&mut columns, name));
        let needed = columns.len();
        let filters = query.filters.iter().map(|filter| {
            let fields = filter.columns().into_iter().map(|name| place(&mut columns, name)).collect();
            (fields, filter.clone())
        });
        let filters = filters.collect();
        let placed = ![&query.row, &query.col].iter().any(|axis| matches!(axis, Axis::Grid(_)));
        Counter {
            needed,
            query,
            columns,
            axes,
            value,
            average_over,
            filters,
            averaged_labels: FxHashMap::default(),
            tally: Tally::default(),
            batch: Vec::new(),
            adder: None,
            team: Arc::new(Solo),
            placed,
        }
    }

    /// Keeps only the share of this rank: some places, none of which another rank has. All ranks count the same rows, and get
    /// the same labels.
    pub fn share(&mut self, team: &Arc<dyn Team>) {
        self.team = Arc::clone(team);
    }

    fn is_own(&self, row: u32, col: u32) -> bool {
        self.team.size() == 1 || Place { row, col }.owner(self.team.size()) == self.team.rank()
    }

    /// The columns it wants, in the order of the fields of [`Counter::push`].
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// One row of the table. A field without a value is empty.
    pub fn push(&mut self, fields: &[&str], at: At<'_>) -> Result<(), Error> {
        self.tally.events += 1;
        let kept = |(columns, filter): &(Vec<usize>, Filter)| {
            filter.keeps(fields[columns[0]], columns.get(1).map(|column| fields[*column]))
        };
        if !self.filters.iter().all(kept) {
            self.tally.filtered += 1;
            return Ok(());
        }
        if fields[..self.needed].iter().any(|field| field.trim().is_empty()) {
            self.tally.missing += 1;
            return Ok(());
        }
        let mut key = [0; 4];
        let first = 4 - self.axes.len();
        for (key, axis) in key[first..].iter_mut().zip(&mut self.axes) {
            let Some(id) = axis.id(fields, &self.columns, at)? else {
                self.tally.outside += 1;
                return Ok(());
            };
            *key = id;
        }
        let value = match self.value {
            None => 1.0,
            Some(field) => number(fields[field], &self.columns[field], at)?,
        };
        if self.placed && !self.is_own(key[1], key[2]) {
            return Ok(());
        }
        let averaged = self.average_over.map(|field| intern(&mut self.averaged_labels, fields[field]));
        self.batch.push(Event { cell: key, value, averaged });
        if self.batch.len() == BATCH {
            self.hand_over();
        }
        Ok(())
    }

    /// Gives the batch to a thread that adds up. Batches are added in order, so that sums have the same bits each time.
    fn hand_over(&mut self) {
        let (sender, _) = self.adder.get_or_insert_with(|| {
            let (sender, batches) = mpsc::sync_channel::<Vec<Event>>(8);
            let add = move || {
                let mut sums = Sums::default();
                batches.into_iter().for_each(|batch| sums.add(batch));
                sums
            };
            (sender, thread::spawn(add))
        });
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        // It ends before we do only if it panics, which is met at the end.
        let _ = sender.send(batch);
    }

    /// All events, added up.
    fn add_up(&mut self) -> Sums {
        let batch = std::mem::take(&mut self.batch);
        let mut sums = match self.adder.take() {
            Some((sender, adder)) => {
                drop(sender);
                adder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }
            None => Sums::default(),
        };
        sums.add(batch);
        sums
    }

    /// Puts all labels in order. `file` is the name that messages give the table.
    pub fn finish(mut self, file: &str) -> Result<Events, Error> {
        let mut games: FxHashMap<[u32; 3], f64> = FxHashMap::default();
        let mut sums = self.add_up();
        sums.averaged.iter().for_each(|(place, _)| *games.entry(*place).or_default() += 1.0);
        let dropped = self.drop_rows(&mut sums);
        let mut cells: Vec<Cell> = Vec::with_capacity(sums.cells.len());
        for (key, (sum, count)) in sums.cells {
            let games = games.get(&[key[0], key[1], key[2]]).copied().unwrap_or(1.0);
            cells.push(Cell { key, sum, count, games });
        }
        let feature_axis = self.axes.len() - 1;
        let first = 4 - self.axes.len();
        let mut labels = Vec::new();
        for (at, axis) in self.axes.iter().enumerate() {
            let mut used = vec![0; axis.keys()];
            cells.iter().for_each(|cell| used[cell.key[first + at] as usize] = 1);
            self.team.max(&mut used);
            let used: Vec<bool> = used.iter().map(|used| *used > 0).collect();
            let (names, index) = axis.finish(&used, at == feature_axis)?;
            cells.iter_mut().for_each(|cell| cell.key[first + at] = index[cell.key[first + at] as usize]);
            labels.push(Labels { axis: axis.resolved(), names });
        }
        cells.sort_by_key(|cell| cell.key);
        // Points of a grid that share a cell were apart until now.
        cells.dedup_by(|next, cell| {
            let same = next.key == cell.key;
            if same {
                (cell.sum, cell.count) = (cell.sum + next.sum, cell.count + next.count);
            }
            same
        });
        let mean = matches!(self.query.value, Value::Mean(_));
        let cells = cells.into_iter().map(|cell| {
            let value = if mean { cell.sum / cell.count as f64 } else { cell.sum };
            (cell.key, value / cell.games)
        });
        let cells: Vec<([u32; 4], f64)> = cells.filter(|cell| cell.1 != 0.0).collect();
        let cells: Vec<([u32; 4], f64)> = match self.placed {
            true => cells,
            false => cells.into_iter().filter(|(key, _)| self.is_own(key[1], key[2])).collect(),
        };
        (self.tally.dropped_labels, self.tally.dropped) = dropped;
        let mut count = [cells.len() as i64];
        self.team.sum(&mut count);
        if count == [0] {
            return Err(Error::NoEvents { file: file.into(), tally: self.tally });
        }
        let mut labels = labels.into_iter().rev();
        let mut next =
            || labels.next().unwrap_or(Labels { axis: self.query.feature.clone(), names: Vec::new() });
        let (features, cols, rows) = (next(), next(), next());
        let steps = self.query.step.is_some().then(next);
        let (row_groups, col_groups) = (Vec::new(), Vec::new());
        Ok(Events { features, rows, cols, steps, row_groups, col_groups, tally: self.tally, cells })
    }

    /// Leaves out all rows but those with most events; returns how many labels and events were lost.
    fn drop_rows(&self, sums: &mut Sums) -> (usize, u64) {
        let Some(keep) = self.query.keep_rows else { return (0, 0) };
        let axis = &self.axes[self.axes.len() - 3];
        let mut events: Vec<i64> = vec![0; axis.keys()];
        let mut names = vec![""; axis.keys()];
        axis.labels.iter().for_each(|(label, id)| names[*id as usize] = label);
        sums.cells.iter().for_each(|(key, cell)| events[key[1] as usize] += cell.1 as i64);
        if self.placed {
            self.team.sum(&mut events);
        }
        let mut order: Vec<usize> = (0..events.len()).filter(|row| events[*row] > 0).collect();
        order.sort_by(|a, b| {
            events[*b].cmp(&events[*a]).then_with(|| names[*a].cmp(names[*b])).then(a.cmp(b))
        });
        let mut kept = vec![false; events.len()];
        order.iter().take(keep).for_each(|row| kept[*row] = true);
        sums.cells.retain(|key, _| kept[key[1] as usize]);
        let lost = &order[keep.min(order.len())..];
        (lost.len(), lost.iter().map(|row| events[*row] as u64).sum())
    }
}

/// What fell into a cell, and by what it is divided.
struct Cell {
    key: [u32; 4],
    sum: f64,
    count: u64,
    games: f64,
}
