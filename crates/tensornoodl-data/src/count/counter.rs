//! Counts rows of a table into cells.

use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::{self, JoinHandle};

use rustc_hash::FxHashMap;
use tensornoodl::parallel::{ExactSum, Solo, get, put};
use tensornoodl::{Place, Team};

use crate::count::cells::{Cells, Event, Sums};
use crate::count::collector::{Collector, intern, united};
use crate::count::events::Events;
use crate::count::filter::Filter;
use crate::count::labels::Labels;
use crate::count::query::{Query, Value};
use crate::count::tally::Tally;
use crate::error::Error;
use crate::input::row::{At, number};

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
    /// Where all ranks read the same rows: whose the next one is.
    turn: Option<usize>,
}

/// Events of a batch.
const BATCH: usize = 1 << 14;

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
            turn: None,
        }
    }

    /// Counts as a rank of a team: each of them is given some rows of the table, and gets the cells of some places in the end. Labels are
    /// those of all.
    pub fn join(&mut self, team: &Arc<dyn Team>) {
        self.team = Arc::clone(team);
    }

    /// Where every rank is given all rows: each takes every so manyth.
    pub(crate) fn take_turns(&mut self) {
        self.turn = Some(0);
    }

    /// The columns it wants, in the order of the fields of [`Counter::push`].
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// One row of the table. A field without a value is empty.
    pub fn push(&mut self, fields: &[&str], at: At<'_>) -> Result<(), Error> {
        if let Some(turn) = &mut self.turn {
            let whose = std::mem::replace(turn, (*turn + 1) % self.team.size());
            if whose != self.team.rank() {
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
        let averaged = self.average_over.map(|field| intern(&mut self.averaged_labels, fields[field]));
        self.batch.push(Event { cell: key, value, averaged });
        if self.batch.len() == BATCH {
            self.hand_over();
        }
        Ok(())
    }

    /// Gives the batch to a thread that adds up.
    fn hand_over(&mut self) {
        let mut sums = Sums::new(&self.query.value);
        let (sender, _) = self.adder.get_or_insert_with(|| {
            let (sender, batches) = mpsc::sync_channel::<Vec<Event>>(8);
            let add = move || {
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
            None => Sums::new(&self.query.value),
        };
        sums.add(batch);
        sums
    }

    /// Agrees with the other ranks on all labels, and gives each the cells whose places are his; points of a grid find their cells.
    fn deal(&mut self, sums: Sums) -> Sums {
        let team = Arc::clone(&self.team);
        let settled: Vec<Option<Vec<u32>>> = self.axes.iter_mut().map(|axis| axis.settle(&*team)).collect();
        if settled.iter().all(Option::is_none) {
            return sums;
        }
        let averaged: Vec<(&[u8], u32)> =
            self.averaged_labels.iter().map(|(label, id)| (label.as_bytes(), *id)).collect();
        let averaged = united(&*team, &averaged).1;
        let first = 4 - self.axes.len();
        let settle = |mut key: [u32; 4]| {
            for (number, settled) in key[first..].iter_mut().zip(&settled) {
                *number = settled.as_ref().map_or(*number, |settled| settled[*number as usize]);
            }
            let owner = Place { row: key[1], col: key[2] }.owner(team.size());
            (key, owner)
        };
        let mut own = Sums::new(&self.query.value);
        let mut parcels = vec![Vec::new(); team.size()];
        for (key, (sum, count)) in sums.cells.into_iter() {
            let (key, owner) = settle(key);
            if owner == team.rank() {
                own.cells.add(key, &sum, count);
                continue;
            }
            let parcel = &mut parcels[owner];
            put_key(parcel, key);
            put(parcel, count);
            if let Cells::Summed(_) = own.cells {
                sum.to_words().iter().for_each(|word| put(parcel, *word));
            }
        }
        for mut parcel in team.exchange(parcels).iter().map(Vec::as_slice) {
            while !parcel.is_empty() {
                let (key, count) = (get_key(&mut parcel), get(&mut parcel));
                let sum = match own.cells {
                    Cells::Counted(_) => ExactSum::default(),
                    Cells::Summed(_) => ExactSum::from_words(std::array::from_fn(|_| get(&mut parcel))),
                };
                own.cells.add(key, &sum, count);
            }
        }
        let mut parcels = vec![Vec::new(); team.size()];
        for ([step, row, col], label) in sums.averaged {
            let ([step, row, col, _], owner) = settle([step, row, col, 0]);
            put_key(&mut parcels[owner], [step, row, col, averaged[label as usize]]);
        }
        for mut parcel in team.exchange(parcels).iter().map(Vec::as_slice) {
            while !parcel.is_empty() {
                let [step, row, col, label] = get_key(&mut parcel);
                own.averaged.insert(([step, row, col], label));
            }
        }
        own
    }

    /// Puts all labels in order. `file` is the name that messages give the table.
    pub fn finish(mut self, file: &str) -> Result<Events, Error> {
        let sums = self.add_up();
        let sums = self.deal(sums);
        let mut games: FxHashMap<[u32; 3], f64> = FxHashMap::default();
        sums.averaged.iter().for_each(|(place, _)| *games.entry(*place).or_default() += 1.0);
        let kept = self.kept_rows(&sums.cells);
        let mut cells: Vec<([u32; 4], f64)> = Vec::with_capacity(sums.cells.len());
        for (key, (sum, count)) in sums.cells.into_iter() {
            let games = games.get(&[key[0], key[1], key[2]]).copied().unwrap_or(1.0);
            let value = match self.query.value {
                Value::Count => count as f64,
                Value::Sum(_) => sum.get(),
                Value::Mean(_) => sum.get() / count as f64,
            };
            if kept.as_ref().is_none_or(|kept| kept[key[1] as usize]) {
                cells.push((key, value / games));
            }
        }
        let feature_axis = self.axes.len() - 1;
        let first = 4 - self.axes.len();
        let mut labels = Vec::new();
        for (at, axis) in self.axes.iter().enumerate() {
            let mut used = vec![0; axis.keys()];
            cells.iter().for_each(|(key, _)| used[key[first + at] as usize] = 1);
            self.team.max(&mut used);
            let used: Vec<bool> = used.iter().map(|used| *used > 0).collect();
            let (names, index) = axis.finish(&used, at == feature_axis)?;
            cells.iter_mut().for_each(|(key, _)| key[first + at] = index[key[first + at] as usize]);
            labels.push(Labels { axis: axis.axis.clone(), names });
        }
        cells.retain(|cell| cell.1 != 0.0);
        cells.sort_unstable_by_key(|cell| cell.0);
        let Tally { events, filtered, missing, outside, .. } = &mut self.tally;
        let mut counts =
            [*events, *filtered, *missing, *outside, cells.len() as u64].map(|count| count as i64);
        self.team.sum(&mut counts);
        [*events, *filtered, *missing, *outside] = [0, 1, 2, 3].map(|at| counts[at] as u64);
        if counts[4] == 0 {
            let Tally { events, filtered, missing, outside, dropped, .. } = self.tally;
            return Err(Error::NoEvents { file: file.into(), events, filtered, missing, outside, dropped });
        }
        let mut labels = labels.into_iter().rev();
        let mut next =
            || labels.next().unwrap_or(Labels { axis: self.query.feature.clone(), names: Vec::new() });
        let (features, cols, rows) = (next(), next(), next());
        let steps = self.query.step.is_some().then(next);
        let (row_groups, col_groups) = (Vec::new(), Vec::new());
        Ok(Events { features, rows, cols, steps, row_groups, col_groups, tally: self.tally, cells })
    }

    /// With [`Query::keep_rows`], which rows have most events. The others are left out, and tallied.
    fn kept_rows(&mut self, cells: &Cells) -> Option<Vec<bool>> {
        let keep = self.query.keep_rows?;
        let axis = &self.axes[self.axes.len() - 3];
        let mut events: Vec<i64> = vec![0; axis.keys()];
        cells.counts().for_each(|(key, count)| events[key[1] as usize] += count as i64);
        self.team.sum(&mut events);
        let names = axis.names();
        let mut order: Vec<usize> = (0..events.len()).filter(|row| events[*row] > 0).collect();
        order.sort_by(|a, b| events[*b].cmp(&events[*a]).then_with(|| names[*a].cmp(&names[*b])));
        let mut kept = vec![false; events.len()];
        order.iter().take(keep).for_each(|row| kept[*row] = true);
        let lost = &order[keep.min(order.len())..];
        self.tally.dropped_labels = lost.len();
        self.tally.dropped = lost.iter().map(|row| events[*row] as u64).sum();
        Some(kept)
    }
}

/// Four numbers, in two words.
fn put_key(parcel: &mut Vec<u8>, [a, b, c, d]: [u32; 4]) {
    put(parcel, u64::from(a) << 32 | u64::from(b));
    put(parcel, u64::from(c) << 32 | u64::from(d));
}

/// And back.
fn get_key(parcel: &mut &[u8]) -> [u32; 4] {
    let [first, second] = [get(parcel), get(parcel)];
    [(first >> 32) as u32, first as u32, (second >> 32) as u32, second as u32]
}
