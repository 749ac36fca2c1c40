//! Cells, and what is added up in each.

use rustc_hash::{FxHashMap, FxHashSet};
use tensornoodl::parallel::ExactSum;

use crate::count::query::Value;

/// The cell of an event, its value, and what is averaged over.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) cell: [u32; 4],
    pub(crate) value: f64,
    pub(crate) averaged: Option<u32>,
}

/// What fell into each cell; and at each place, the distinct values of what is averaged over.
#[derive(Debug)]
pub(crate) struct Sums {
    pub(crate) cells: Cells,
    pub(crate) averaged: FxHashSet<([u32; 3], u32)>,
}

/// Events of each cell, or their sums and how many they are.
#[derive(Debug)]
pub(crate) enum Cells {
    Counted(FxHashMap<[u32; 4], u64>),
    Summed(FxHashMap<[u32; 4], (ExactSum, u64)>),
}

impl Cells {
    pub(crate) fn add(&mut self, at: [u32; 4], sum: &ExactSum, count: u64) {
        match self {
            Cells::Counted(cells) => *cells.entry(at).or_default() += count,
            Cells::Summed(cells) => {
                let cell = cells.entry(at).or_default();
                cell.0.merge(sum);
                cell.1 += count;
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Cells::Counted(cells) => cells.len(),
            Cells::Summed(cells) => cells.len(),
        }
    }

    /// How many events each cell has.
    pub(crate) fn counts(&self) -> Box<dyn Iterator<Item = ([u32; 4], u64)> + '_> {
        match self {
            Cells::Counted(cells) => Box::new(cells.iter().map(|(at, count)| (*at, *count))),
            Cells::Summed(cells) => Box::new(cells.iter().map(|(at, cell)| (*at, cell.1))),
        }
    }

    pub(crate) fn into_iter(self) -> Box<dyn Iterator<Item = ([u32; 4], (ExactSum, u64))>> {
        match self {
            Cells::Counted(cells) => {
                Box::new(cells.into_iter().map(|(at, count)| (at, (ExactSum::default(), count))))
            }
            Cells::Summed(cells) => Box::new(cells.into_iter()),
        }
    }
}

impl Sums {
    pub(crate) fn new(value: &Value) -> Sums {
        let cells = match value {
            Value::Count => Cells::Counted(FxHashMap::default()),
            Value::Sum(_) | Value::Mean(_) => Cells::Summed(FxHashMap::default()),
        };
        Sums { cells, averaged: FxHashSet::default() }
    }

    pub(crate) fn add(&mut self, batch: Vec<Event>) {
        for Event { cell: at, value, averaged } in batch {
            match &mut self.cells {
                Cells::Counted(cells) => *cells.entry(at).or_default() += 1,
                Cells::Summed(cells) => {
                    let cell = cells.entry(at).or_default();
                    cell.0.add(value);
                    cell.1 += 1;
                }
            }
            self.averaged.extend(averaged.map(|label| ([at[0], at[1], at[2]], label)));
        }
    }
}
