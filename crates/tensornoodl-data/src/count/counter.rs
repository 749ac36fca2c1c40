//! Counts the rows of a table into cells.
//!
//! The rows of a table are pushed once, in any order. A counter holds the labels and the cells that are not empty:
//! about 40 bytes for a counted cell and 80 bytes for a summed cell, however many rows fall into it. With
//! [`Query::average_over`] it also holds the distinct values of that column at each place.

use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};

use ahash::AHashMap;
use tensornoodl::parallel::{Solo, agree, exchange};
use tensornoodl::{Place, Team};

use crate::count::axis::MAX_FEATURES;
use crate::count::cells::{Cells, Event, Key, Sums};
use crate::count::collector::{Collector, intern, unite};
use crate::count::events::Events;
use crate::count::filter::Filter;
use crate::count::labels::Labels;
use crate::count::query::{Query, Value};
use crate::count::stretch::Stretch;
use crate::count::tally::Tally;
use crate::error::Error;
use crate::input::row::{At, number};
use crate::memory::{self, Watch};

/// Counts rows of a table as they are pushed.
#[derive(Debug)]
pub struct Counter {
    query: Query,
    /// The columns that are read, each once. The columns that need a value come first.
    columns: Vec<String>,
    /// Number of columns that need a value.
    needed: usize,
    /// The axes in the order step (if there is one), row, col, feature.
    axes: Vec<Collector>,
    /// Position of the column whose values are summed.
    value: Option<usize>,
    /// Position of the column that is averaged over.
    average_over: Option<usize>,
    /// The filters, with the positions of their columns.
    filters: Vec<(Vec<usize>, Filter)>,
    /// Ids of the values of the column that is averaged over.
    averaged_labels: AHashMap<Box<str>, u32>,
    watch: Watch,
    tally: Tally,
    /// Events that have not been added to the sums yet.
    batch: Vec<Event>,
    /// A thread that adds batches to the sums, because finding a cell in memory takes as long as parsing a row.
    adder: Option<Adder>,
    team: Arc<dyn Team>,
    /// The rank that takes the next row, if every rank is given all rows.
    next_rank: Option<usize>,
}

/// A thread that adds batches to sums, and where it takes them from.
type Adder = (SyncSender<Vec<Event>>, JoinHandle<Result<Sums, Error>>);

/// Number of events of a batch.
const BATCH: usize = 1 << 12;

impl Counter {
    /// Creates a counter for a query, for a team of one rank.
    pub fn new(query: Query) -> Counter {
        let mut columns: Vec<String> = Vec::new();
        let position = |columns: &mut Vec<String>, name: &str| {
            columns.iter().position(|known| known == name).unwrap_or_else(|| {
                columns.push(name.into());
                columns.len() - 1
            })
        };
        let axes = query.step.iter().chain([&query.row, &query.col, &query.feature]);
        let axes = axes.map(|axis| {
            let positions = axis.columns().into_iter().map(|name| position(&mut columns, name)).collect();
            Collector::new(axis.clone(), positions)
        });
        let axes = axes.collect();
        let value = match &query.value {
            Value::Count => None,
            Value::Sum(column) | Value::Mean(column) => Some(position(&mut columns, column)),
        };
        let average_over = query.average_over.as_deref().map(|name| position(&mut columns, name));
        let needed = columns.len();
        let filters = query.filters.iter().map(|filter| {
            let positions = filter.columns().into_iter().map(|name| position(&mut columns, name)).collect();
            (positions, filter.clone())
        });
        let filters = filters.collect();
        Counter {
            query,
            columns,
            needed,
            axes,
            value,
            average_over,
            filters,
            averaged_labels: AHashMap::default(),
            watch: Watch::default(),
            tally: Tally::default(),
            batch: Vec::new(),
            adder: None,
            team: Arc::new(Solo),
            next_rank: None,
        }
    }

    /// Joins a team. Each rank is then given some rows of the table, and finally gets the cells of some places. All
    /// ranks get all labels.
    pub fn join(&mut self, team: &Arc<dyn Team>) {
        self.team = Arc::clone(team);
    }

    /// From now on every rank is given all rows, and takes every n-th of them, where n is the number of ranks.
    pub(crate) fn take_every_nth(&mut self) {
        self.next_rank = Some(0);
    }

    /// Returns the columns that the query needs, in the order of the fields of [`Counter::push`].
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Counts one row of the table. A field without a value is empty.
    ///
    /// # Errors
    /// [`Error::Field`] if a field is not a number or a time where one is needed, [`Error::Memory`] if the labels or the
    /// cells do not fit into memory.
    ///
    /// # Panics
    /// If there are fewer fields than [`Counter::columns`].
    pub fn push(&mut self, fields: &[&str], at: At<'_>) -> Result<(), Error> {
        if let Some(next) = &mut self.next_rank {
            let taker = std::mem::replace(next, (*next + 1) % self.team.size());
            if taker != self.team.rank() {
                return Ok(());
            }
        }
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
        let mut cell: Key = [0; 4];
        let first = 4 - self.axes.len();
        for (id, axis) in cell[first..].iter_mut().zip(&mut self.axes) {
            let Some(found) = axis.id(fields, &self.columns, at)? else {
                self.tally.outside += 1;
                return Ok(());
            };
            *id = found;
        }
        let value = match self.value {
            None => 1.0,
            Some(field) => number(fields[field], &self.columns[field], at)?,
        };
        let averaged = match self.average_over {
            Some(field) => Some(intern(&mut self.averaged_labels, &mut self.watch, fields[field])?),
            None => None,
        };
        self.batch.push(Event { cell, value, averaged });
        if self.batch.len() == BATCH {
            self.send_batch()?;
        }
        Ok(())
    }

    /// Sends the batch to the thread that adds it to the sums.
    fn send_batch(&mut self) -> Result<(), Error> {
        let mut sums = Sums::new(&self.query.value);
        let (sender, _) = self.adder.get_or_insert_with(|| {
            let (sender, batches) = mpsc::sync_channel::<Vec<Event>>(4);
            let add = move || {
                batches.into_iter().try_for_each(|batch| sums.add(batch))?;
                Ok(sums)
            };
            (sender, thread::spawn(add))
        });
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        match sender.send(batch) {
            Ok(()) => Ok(()),
            // The thread has ended with an error, or has panicked. `take_sums` resumes that panic.
            Err(_) => self.take_sums().map(|_| ()),
        }
    }

    /// Returns the sums of all events of this rank.
    fn take_sums(&mut self) -> Result<Sums, Error> {
        let batch = std::mem::take(&mut self.batch);
        let mut sums = match self.adder.take() {
            Some((sender, adder)) => {
                drop(sender);
                adder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?
            }
            None => Sums::new(&self.query.value),
        };
        sums.add(batch)?;
        Ok(sums)
    }

    /// Agrees with the other ranks on the ids of all labels, and sends each cell to the rank that owns its place.
    /// Points of a grid get the ids of their grid cells.
    fn distribute(&mut self, sums: Sums) -> Sums {
        let team = Arc::clone(&self.team);
        let new_ids: Vec<Option<Vec<u32>>> = self.axes.iter_mut().map(|axis| axis.settle(&*team)).collect();
        if new_ids.iter().all(Option::is_none) {
            return sums;
        }
        let averaged_ids = unite(&*team, &self.averaged_labels).1;
        let first = 4 - self.axes.len();
        let settle = |mut key: Key| {
            for (id, new_ids) in key[first..].iter_mut().zip(&new_ids) {
                *id = new_ids.as_ref().map_or(*id, |new_ids| new_ids[*id as usize]);
            }
            (key, Place { row: key[1], col: key[2] }.owner(team.size()))
        };
        let empty = || Sums::new(&self.query.value);
        let mut parcels: Vec<Sums> = (0..team.size()).map(|_| empty()).collect();
        for (key, (sum, count)) in sums.cells.into_iter() {
            let (key, owner) = settle(key);
            parcels[owner].cells.add(key, &sum, count);
        }
        for ([step, row, col], id) in sums.averaged {
            let ([step, row, col, _], owner) = settle([step, row, col, 0]);
            parcels[owner].averaged.insert(([step, row, col], averaged_ids[id as usize]));
        }
        let mut own = std::mem::replace(&mut parcels[team.rank()], empty());
        exchange(&*team, parcels).into_iter().for_each(|parcel| own.merge(parcel));
        own
    }

    /// Sorts the labels of all axes and returns the counted table. `file` is the name of the table in messages.
    ///
    /// # Errors
    /// [`Error::NoEvents`] if no row counts, [`Error::Memory`] if the cells do not fit into memory, [`Error::Stretched`] or [`Error::Axis`] if the feature axis has too many
    /// labels.
    pub fn finish(mut self, file: &str) -> Result<Events, Error> {
        let team = Arc::clone(&self.team);
        let fits = |sums: &Sums| memory::check((sums.cells.len() * size_of::<(Key, f64)>()) as f64);
        let sums = agree(&*team, self.take_sums().and_then(|sums| fits(&sums).map(|()| sums)))?;
        let sums = self.distribute(sums);
        let kept = self.kept_rows(&sums.cells);
        let mut cells = self.values(sums);
        if let Some(kept) = kept {
            cells.retain(|(key, _)| kept[key[1] as usize]);
        }
        let (mut labels, stretch) = self.sort_labels(&mut cells, file)?;
        cells.retain(|cell| cell.1 != 0.0);
        cells.sort_unstable_by_key(|cell| cell.0);
        self.add_tallies(file, cells.len())?;
        let mut next = || {
            let none = || Labels { axis: self.query.feature.clone(), names: Vec::new() };
            labels.pop().unwrap_or_else(none)
        };
        let (features, cols, rows) = (next(), next(), next());
        let steps = self.query.step.is_some().then(next);
        let (row_groups, col_groups) = (Vec::new(), Vec::new());
        Ok(Events { features, rows, cols, steps, row_groups, col_groups, tally: self.tally, stretch, cells })
    }

    /// Returns the value of each cell.
    fn values(&self, sums: Sums) -> Vec<(Key, f64)> {
        let mut averaged: AHashMap<[u32; 3], f64> = AHashMap::default();
        sums.averaged.iter().for_each(|(place, _)| *averaged.entry(*place).or_default() += 1.0);
        let mut cells = Vec::with_capacity(sums.cells.len());
        for (key, (sum, count)) in sums.cells.into_iter() {
            let value = match self.query.value {
                Value::Count => count as f64,
                Value::Sum(_) => sum.get(),
                Value::Mean(_) => sum.get() / count as f64,
            };
            let divisor = averaged.get(&[key[0], key[1], key[2]]).copied().unwrap_or(1.0);
            cells.push((key, value / divisor));
        }
        cells
    }

    /// Returns the labels of each axis in order, and replaces the ids in all cells by positions among the labels. Also
    /// returns whether the feature axis is stretched.
    fn sort_labels(
        &self,
        cells: &mut [(Key, f64)],
        file: &str,
    ) -> Result<(Vec<Labels>, Option<Stretch>), Error> {
        let first = 4 - self.axes.len();
        let (mut labels, mut stretch) = (Vec::new(), None);
        for (at, axis) in self.axes.iter().enumerate() {
            let mut used = vec![0; axis.len()];
            cells.iter().for_each(|(key, _)| used[key[first + at] as usize] = 1);
            self.team.max(&mut used);
            let used: Vec<bool> = used.iter().map(|used| *used > 0).collect();
            let is_feature = at == self.axes.len() - 1;
            let (names, positions) = axis.finish(&used, is_feature);
            if is_feature {
                stretch = self.check_features(axis.stretch(&used, names.len()), names.len(), file)?;
            }
            cells.iter_mut().for_each(|(key, _)| key[first + at] = positions[key[first + at] as usize]);
            labels.push(Labels { axis: axis.axis.clone(), names });
        }
        Ok((labels, stretch))
    }

    /// Checks the number of features. Returns the stretch of the axis if users should know it.
    fn check_features(
        &self,
        stretch: Option<Stretch>,
        features: usize,
        file: &str,
    ) -> Result<Option<Stretch>, Error> {
        let usual = stretch.as_ref().map_or(MAX_FEATURES, |stretch| Stretch::limit(stretch.used));
        let limit = self.query.max_features.unwrap_or(usual).min(MAX_FEATURES);
        match stretch {
            Some(stretch) if features > limit => {
                Err(Error::Stretched { what: stretch.words(file), limit, remedy: stretch.remedy() })
            }
            None if features > limit => Err(Error::Axis {
                text: self.query.feature.to_string(),
                rule: format!("of at most {limit} labels: fibers are dense"),
            }),
            stretch => Ok(stretch.filter(Stretch::is_worth_a_word)),
        }
    }

    /// Adds up the tallies of all ranks, and checks that there are any cells.
    fn add_tallies(&mut self, file: &str, cells: usize) -> Result<(), Error> {
        let Tally { events, filtered, missing, outside, dropped, .. } = &mut self.tally;
        let mut counts = [*events, *filtered, *missing, *outside, cells as u64].map(|count| count as i64);
        self.team.sum(&mut counts);
        let cells;
        [*events, *filtered, *missing, *outside, cells] = counts.map(|count| count as u64);
        if cells > 0 {
            return Ok(());
        }
        Err(Error::NoEvents {
            file: file.into(),
            events: *events,
            filtered: *filtered,
            missing: *missing,
            outside: *outside,
            dropped: *dropped,
        })
    }

    /// With [`Query::keep_rows`], returns whether each row is among those with most events. The tally counts the
    /// others as dropped.
    fn kept_rows(&mut self, cells: &Cells) -> Option<Vec<bool>> {
        let keep = self.query.keep_rows?;
        let axis = &self.axes[self.axes.len() - 3];
        let mut events: Vec<i64> = vec![0; axis.len()];
        cells.counts().for_each(|(key, count)| events[key[1] as usize] += count as i64);
        self.team.sum(&mut events);
        let names = axis.names();
        let mut order: Vec<usize> = (0..events.len()).filter(|row| events[*row] > 0).collect();
        order.sort_by(|a, b| events[*b].cmp(&events[*a]).then_with(|| names[*a].cmp(&names[*b])));
        let mut kept = vec![false; events.len()];
        order.iter().take(keep).for_each(|row| kept[*row] = true);
        let dropped = &order[keep.min(order.len())..];
        self.tally.dropped_labels = dropped.len();
        self.tally.dropped = dropped.iter().map(|row| events[*row] as u64).sum();
        Some(kept)
    }
}
