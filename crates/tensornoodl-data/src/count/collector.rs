//! Collects the labels of an axis: gives them ids in the order in which they come, and sorts them at the end.
//!
//! Tables come from strangers, so every map of this crate has a hasher with a random seed: nobody can choose labels that
//! all have one hash. Results do not depend on the order of a map: ids are given in the order of the table, and labels
//! and cells are sorted.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use ahash::AHashMap;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tensornoodl::Team;
use tensornoodl::parallel::{exchange, gather};

use crate::count::axis::{Axis, MAX_FEATURES};
use crate::count::bins::{bin, label};
use crate::count::grid::Grid;
use crate::count::labels::sort_labels;
use crate::count::stretch::{Far, Stretch, far_gap};
use crate::error::Error;
use crate::input::row::{At, bad_field, number};
use crate::input::time::parse_time;
use crate::memory::Watch;

/// The labels of an axis that have been met so far, with their ids.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) axis: Axis,
    /// Positions of the columns of the axis among the fields of a row.
    fields: Vec<usize>,
    /// Labels of a column.
    labels: AHashMap<Box<str>, u32>,
    /// Numbers of time units or bins.
    numbers: AHashMap<i64, u32>,
    /// The first line of the table with each time unit or bin, by id.
    lines: Vec<u64>,
    /// Bits of the coordinates of the points of a grid.
    points: AHashMap<[u64; 2], u32>,
    watch: Watch,
}

/// Bytes that a label, a number or a point takes, besides the text of a label.
const ENTRY: usize = 64;

impl Collector {
    /// Creates a collector for an axis whose columns have the given positions among the fields of a row.
    pub(crate) fn new(axis: Axis, fields: Vec<usize>) -> Collector {
        Collector {
            axis,
            fields,
            labels: AHashMap::default(),
            numbers: AHashMap::default(),
            lines: Vec::new(),
            points: AHashMap::default(),
            watch: Watch::default(),
        }
    }

    /// Returns the number of ids after [`Collector::settle`].
    pub(crate) fn len(&self) -> usize {
        match &self.axis {
            Axis::Column(_) => self.labels.len(),
            Axis::Time(..) | Axis::Bin(..) => self.numbers.len(),
            Axis::Grid(grid) => grid.cells.0 * grid.cells.1,
        }
    }

    /// Returns a sort key for each id. The order of the keys does not depend on the number of ranks.
    pub(crate) fn names(&self) -> Vec<(&str, i64)> {
        let mut names: Vec<(&str, i64)> = (0..self.len() as i64).map(|at| ("", at)).collect();
        self.labels.iter().for_each(|(label, id)| names[*id as usize] = (label, 0));
        self.numbers.iter().for_each(|(number, id)| names[*id as usize] = ("", *number));
        names
    }

    /// Returns the id of the label of a row, or none if the row lies outside a grid.
    ///
    /// # Errors
    /// [`Error::Field`] if a field is not a number or a time where one is needed, [`Error::Memory`] if there are too many
    /// labels.
    pub(crate) fn id(
        &mut self,
        fields: &[&str],
        columns: &[String],
        at: At<'_>,
    ) -> Result<Option<u32>, Error> {
        let field = self.fields[0];
        let (text, column) = (fields[field], &columns[field]);
        let unit_or_bin = match &self.axis {
            Axis::Column(_) => return intern(&mut self.labels, &mut self.watch, text.trim()).map(Some),
            Axis::Time(unit, _) => {
                let rule = "a date such as 2018-12-16 or 2018-12-16 09:30";
                unit.number(parse_time(text).ok_or_else(|| bad_field(text, column, at, rule))?)
            }
            Axis::Bin(_, width) => {
                let rule = "at most 1e15 times the width of a bin";
                bin(number(text, column, at)?, *width).ok_or_else(|| bad_field(text, column, at, rule))?
            }
            Axis::Grid(grid) => {
                let x = number(text, column, at)?;
                let y = number(fields[self.fields[1]], &columns[self.fields[1]], at)?;
                let inside = |bounds: [(f64, f64); 2]| {
                    [x, y].iter().zip(bounds).all(|(at, (low, high))| low <= *at && *at <= high)
                };
                if grid.bounds.is_some_and(|bounds| !inside(bounds)) {
                    return Ok(None);
                }
                let next = self.points.len() as u32;
                // Adding 0.0 turns -0.0 into 0.0, which has other bits.
                let id = *self.points.entry([x, y].map(|v| (v + 0.0).to_bits())).or_insert(next);
                if id == next {
                    self.watch.grow(ENTRY)?;
                }
                return Ok(Some(id));
            }
        };
        let next = self.numbers.len() as u32;
        let id = *self.numbers.entry(unit_or_bin).or_insert(next);
        if id == next {
            self.lines.push(at.line);
            self.watch.grow(ENTRY)?;
        }
        Ok(Some(id))
    }

    /// Takes in the labels of all ranks, and gives them ids that are the same on all ranks. The points of a grid
    /// become its cells.
    ///
    /// Returns the new id for each old id, or none if no id changes.
    pub(crate) fn settle(&mut self, team: &dyn Team) -> Option<Vec<u32>> {
        let new_ids;
        match &self.axis {
            Axis::Grid(grid) => {
                let grid = Grid { bounds: grid.bounds.or_else(|| self.bounds(team)), ..grid.clone() };
                let mut cells = vec![0; self.points.len()];
                for (point, id) in &self.points {
                    cells[*id as usize] = grid.cell(point.map(f64::from_bits)) as u32;
                }
                self.points = AHashMap::default();
                self.axis = Axis::Grid(grid);
                new_ids = cells;
            }
            _ if team.size() == 1 => return None,
            Axis::Column(_) => (self.labels, new_ids) = unite(team, &self.labels),
            Axis::Time(..) | Axis::Bin(..) => {
                (self.numbers, new_ids) = unite(team, &self.numbers);
                let own: Vec<(u32, u64)> = new_ids.iter().copied().zip(self.lines.drain(..)).collect();
                self.lines = vec![u64::MAX; self.numbers.len()];
                for (id, line) in gather(team, own).into_iter().flatten() {
                    self.lines[id as usize] = line.min(self.lines[id as usize]);
                }
            }
        }
        Some(new_ids)
    }

    /// Returns the lowest and highest x and y of the points of all ranks, or none if there are no points.
    fn bounds(&self, team: &dyn Team) -> Option<[(f64, f64); 2]> {
        let bounds = [0, 1].map(|axis| {
            let values = self.points.keys().map(|point| f64::from_bits(point[axis]));
            let low = values.clone().fold(f64::INFINITY, f64::min);
            let high = values.fold(f64::NEG_INFINITY, f64::max);
            let all = gather(team, (low, high));
            let low = all.iter().map(|bounds| bounds.0).fold(f64::INFINITY, f64::min);
            let high = all.iter().map(|bounds| bounds.1).fold(f64::NEG_INFINITY, f64::max);
            // A grid must have some extent.
            (low, if high > low { high } else { low + low.abs().max(1.0) })
        });
        bounds[0].0.is_finite().then_some(bounds)
    }

    /// Returns the labels in order, and for each id its position among them. If `fill` is set, times and bins have no
    /// gaps; of more than [`MAX_FEATURES`] labels, there are then some [`MAX_FEATURES`] + 1, which must be refused.
    pub(crate) fn finish(&self, used: &[bool], fill: bool) -> (Vec<String>, Vec<u32>) {
        let mut positions = vec![0; self.len()];
        let names: Vec<String> = match &self.axis {
            Axis::Column(_) => {
                let mut labels: Vec<(&str, u32)> =
                    self.labels.iter().map(|(label, id)| (&**label, *id)).collect();
                labels.retain(|(_, id)| used[*id as usize]);
                sort_labels(&mut labels, |label| label.0);
                (0..).zip(&labels).for_each(|(position, (_, id))| positions[*id as usize] = position);
                labels.into_iter().map(|(label, _)| label.to_owned()).collect()
            }
            Axis::Time(..) | Axis::Bin(..) => {
                let met = self.used_numbers(used);
                let met: Vec<i64> = met.into_iter().map(|(number, _)| number).collect();
                let all = if fill { self.without_gaps(&met) } else { met };
                for (number, id) in &self.numbers {
                    positions[*id as usize] = all.binary_search(number).unwrap_or(0) as u32;
                }
                all.into_iter().map(|number| self.label(number)).collect()
            }
            Axis::Grid(grid) => {
                positions = (0..self.len() as u32).collect();
                grid.labels()
            }
        };
        (names, positions)
    }

    /// Describes how far events are apart on an axis that has this many labels without gaps. None for axes whose labels
    /// do not depend on how far events are apart.
    pub(crate) fn stretch(&self, used: &[bool], labels: usize) -> Option<Stretch> {
        if !self.axis.is_filled() {
            return None;
        }
        let met = self.used_numbers(used);
        let numbers: Vec<i64> = met.iter().map(|(number, _)| *number).collect();
        let name = |at: usize| self.label(numbers[at]);
        let line = |at: usize| self.lines[met[at].1 as usize];
        let last = met.len().checked_sub(1)?;
        let far = far_gap(&numbers).map(|upper| {
            let below = upper < met.len() - upper;
            let (far, others) = if below { (0, upper..=last) } else { (last, 0..=upper - 1) };
            Far { label: name(far), line: line(far), others: [name(*others.start()), name(*others.end())] }
        });
        let ends = [0, last].map(|at| (name(at), line(at)));
        Some(Stretch { axis: self.axis.to_string(), labels, used: met.len(), ends, far })
    }

    /// Returns the numbers that are used, in order, with their ids.
    fn used_numbers(&self, used: &[bool]) -> Vec<(i64, u32)> {
        let all = self.numbers.iter().map(|(number, id)| (*number, *id));
        let mut met: Vec<(i64, u32)> = all.filter(|(_, id)| used[*id as usize]).collect();
        met.sort_unstable();
        met
    }

    /// Returns all numbers from the first to the last of sorted numbers. If there are more than [`MAX_FEATURES`],
    /// returns some [`MAX_FEATURES`] + 1 numbers instead.
    fn without_gaps(&self, sorted: &[i64]) -> Vec<i64> {
        let (first, last) = (sorted.first().copied().unwrap_or(0), sorted.last().copied().unwrap_or(0));
        match &self.axis {
            Axis::Time(unit, _) => unit.between(first, last, MAX_FEATURES + 1),
            _ if last.abs_diff(first) > MAX_FEATURES as u64 => (0..=MAX_FEATURES as i64).collect(),
            _ => (first..=last).collect(),
        }
    }

    /// Returns the label of a time unit or a bin.
    fn label(&self, number: i64) -> String {
        match &self.axis {
            Axis::Time(unit, _) => unit.label(number),
            Axis::Bin(_, width) => label(number, *width),
            _ => number.to_string(),
        }
    }
}

/// Gives the distinct items of all ranks ids that are the same on all ranks. Returns the new ids of all items, and
/// for each old id of this rank the new id.
///
/// Each item is first sent to one rank, chosen by its hash, so that no rank receives an item from every other rank. This
/// hash has no random seed, because all ranks must choose the same rank.
pub(crate) fn unite<T: Clone + Ord + Hash + Serialize + DeserializeOwned>(
    team: &dyn Team,
    own: &AHashMap<T, u32>,
) -> (AHashMap<T, u32>, Vec<u32>) {
    let mut parcels: Vec<Vec<T>> = vec![Vec::new(); team.size()];
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    for item in own.keys() {
        let owner = hasher.hash_one(item) % team.size() as u64;
        parcels[owner as usize].push(item.clone());
    }
    let mut owned: Vec<T> = exchange(team, parcels).into_iter().flatten().collect();
    owned.sort_unstable();
    owned.dedup();
    let all: AHashMap<T, u32> = gather(team, owned).into_iter().flatten().zip(0..).collect();
    let mut new_ids = vec![0; own.len()];
    own.iter().for_each(|(item, id)| new_ids[*id as usize] = all[item]);
    (all, new_ids)
}

/// Returns the id of a label. A new label gets the next id.
///
/// # Errors
/// [`Error::Memory`] if there are too many labels.
#[inline]
pub(crate) fn intern(
    labels: &mut AHashMap<Box<str>, u32>,
    watch: &mut Watch,
    label: &str,
) -> Result<u32, Error> {
    match labels.get(label) {
        Some(id) => Ok(*id),
        None => add(labels, watch, label),
    }
}

/// Adds a new label. It is a function of its own, because most labels are known.
#[cold]
fn add(labels: &mut AHashMap<Box<str>, u32>, watch: &mut Watch, label: &str) -> Result<u32, Error> {
    watch.grow(ENTRY + label.len())?;
    let id = labels.len() as u32;
    labels.insert(label.into(), id);
    Ok(id)
}
