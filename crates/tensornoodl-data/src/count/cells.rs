//! Cells of tensors, and the counts and sums of the events in them.

use ahash::{AHashMap, AHashSet};
use serde::{Deserialize, Serialize};
use tensornoodl::parallel::ExactSum;

use crate::count::query::Value;
use crate::error::Error;
use crate::memory::{self, Watch};

/// The ids of step, row, col and feature of a cell. Without a step axis, the step is 0.
pub(crate) type Key = [u32; 4];

/// An event: its cell, its value, and the id of its value in the column that is averaged over.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) cell: Key,
    pub(crate) value: f64,
    pub(crate) averaged: Option<u32>,
}

/// The sums of the events in each cell. Also holds, for each step and place, the distinct ids in the column that is
/// averaged over.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Sums {
    pub(crate) cells: Cells,
    pub(crate) averaged: AHashSet<([u32; 3], u32)>,
    #[serde(skip)]
    watch: Watch,
}

/// For each cell, the number of its events, or the sum of their values and their number.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Cells {
    Counted(AHashMap<Key, u64>),
    Summed(AHashMap<Key, (ExactSum, u64)>),
}

impl Cells {
    /// Adds `count` events with the given sum to a cell.
    pub(crate) fn add(&mut self, key: Key, sum: &ExactSum, count: u64) {
        match self {
            Cells::Counted(cells) => *cells.entry(key).or_default() += count,
            Cells::Summed(cells) => {
                let cell = cells.entry(key).or_default();
                cell.0.merge(sum);
                cell.1 += count;
            }
        }
    }

    /// Returns the number of cells.
    pub(crate) fn len(&self) -> usize {
        match self {
            Cells::Counted(cells) => cells.len(),
            Cells::Summed(cells) => cells.len(),
        }
    }

    /// Yields the number of events of each cell, in any order.
    pub(crate) fn counts(&self) -> Box<dyn Iterator<Item = (Key, u64)> + '_> {
        match self {
            Cells::Counted(cells) => Box::new(cells.iter().map(|(key, count)| (*key, *count))),
            Cells::Summed(cells) => Box::new(cells.iter().map(|(key, cell)| (*key, cell.1))),
        }
    }

    /// Yields the sum and the number of events of each cell, in any order. If only events are counted, the sums are
    /// empty.
    pub(crate) fn into_iter(self) -> Box<dyn Iterator<Item = (Key, (ExactSum, u64))>> {
        match self {
            Cells::Counted(cells) => {
                Box::new(cells.into_iter().map(|(key, count)| (key, (ExactSum::default(), count))))
            }
            Cells::Summed(cells) => Box::new(cells.into_iter()),
        }
    }
}

impl Sums {
    /// Returns sums without events, for cells with the given kind of value.
    pub(crate) fn new(value: &Value) -> Sums {
        let cells = match value {
            Value::Count => Cells::Counted(AHashMap::default()),
            Value::Sum(_) | Value::Mean(_) => Cells::Summed(AHashMap::default()),
        };
        Sums { cells, averaged: AHashSet::default(), watch: Watch::default() }
    }

    /// Adds a batch of events.
    ///
    /// # Errors
    /// [`Error::Memory`] if the cells do not fit into memory.
    pub(crate) fn add(&mut self, batch: Vec<Event>) -> Result<(), Error> {
        match &mut self.cells {
            Cells::Counted(cells) => reserve(cells, batch.len())?,
            Cells::Summed(cells) => reserve(cells, batch.len())?,
        }
        for Event { cell: key, value, averaged } in batch {
            match &mut self.cells {
                Cells::Counted(cells) => *cells.entry(key).or_default() += 1,
                Cells::Summed(cells) => {
                    let cell = cells.entry(key).or_default();
                    cell.0.add(value);
                    cell.1 += 1;
                }
            }
            if let Some(id) = averaged
                && self.averaged.insert(([key[0], key[1], key[2]], id))
            {
                self.watch.grow(2 * size_of::<([u32; 3], u32)>())?;
            }
        }
        Ok(())
    }

    /// Adds the sums of another rank.
    pub(crate) fn merge(&mut self, other: Sums) {
        other.cells.into_iter().for_each(|(key, (sum, count))| self.cells.add(key, &sum, count));
        self.averaged.extend(other.averaged);
    }
}

/// Makes room for `more` cells. A map that grows takes twice its size, besides the memory that it has.
fn reserve<T>(cells: &mut AHashMap<Key, T>, more: usize) -> Result<(), Error> {
    if cells.capacity() - cells.len() >= more {
        return Ok(());
    }
    // One byte for each cell, and at least an eighth of the map stays empty.
    let bytes = 2.0 * 8.0 / 7.0 * (cells.capacity().max(more) * (size_of::<(Key, T)>() + 1)) as f64;
    memory::check(bytes)?;
    cells.try_reserve(more).map_err(|_| Error::Memory { needed: bytes, free: 0.0 })
}
