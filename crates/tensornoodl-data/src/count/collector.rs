//! Labels of an axis: collected in the order they come, put in order at the end.

use std::hash::Hasher;

use rustc_hash::{FxHashMap, FxHasher};
use tensornoodl::Team;
use tensornoodl::parallel::{get, put};

use crate::count::axis::{Axis, MOST_FEATURES};
use crate::count::grid::Grid;
use crate::count::labels::in_order;
use crate::error::Error;
use crate::input::row::{At, number, wrong};
use crate::input::time::time;

/// What an axis has met, in order of appearance.
#[derive(Debug)]
pub(crate) struct Collector {
    pub(crate) axis: Axis,
    /// Its columns, among those that are read.
    fields: Vec<usize>,
    labels: FxHashMap<Box<str>, u32>,
    numbers: FxHashMap<i64, u32>,
    points: FxHashMap<[u64; 2], u32>,
}

impl Collector {
    pub(crate) fn new(axis: Axis, fields: Vec<usize>) -> Collector {
        Collector {
            axis,
            fields,
            labels: FxHashMap::default(),
            numbers: FxHashMap::default(),
            points: FxHashMap::default(),
        }
    }

    /// How many there are, once it is settled.
    pub(crate) fn keys(&self) -> usize {
        match &self.axis {
            Axis::Column(_) => self.labels.len(),
            Axis::Time(..) | Axis::Bin(..) => self.numbers.len(),
            Axis::Grid(grid) => grid.cells.0 * grid.cells.1,
        }
    }

    /// What tells one from another, so that equals have an order.
    pub(crate) fn names(&self) -> Vec<(&str, i64)> {
        let mut names: Vec<(&str, i64)> = (0..self.keys() as i64).map(|at| ("", at)).collect();
        self.labels.iter().for_each(|(label, id)| names[*id as usize] = (label, 0));
        self.numbers.iter().for_each(|(number, id)| names[*id as usize] = ("", *number));
        names
    }

    /// Takes what all ranks have met, under numbers that all of them use; points become cells of their grid. For each number so far, the
    /// one from now on, unless all of them stay.
    pub(crate) fn settle(&mut self, team: &dyn Team) -> Option<Vec<u32>> {
        match &self.axis {
            Axis::Grid(grid) => {
                let grid = Grid { bounds: grid.bounds.or_else(|| self.range(team)), ..grid.clone() };
                let mut cells = vec![0; self.points.len()];
                for (point, id) in &self.points {
                    cells[*id as usize] = grid.cell(point.map(f64::from_bits)) as u32;
                }
                self.points = FxHashMap::default();
                self.axis = Axis::Grid(grid);
                Some(cells)
            }
            _ if team.size() == 1 => None,
            Axis::Column(_) => {
                let own: Vec<(&[u8], u32)> =
                    self.labels.iter().map(|(label, id)| (label.as_bytes(), *id)).collect();
                let (all, settled) = united(team, &own);
                let label = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned().into_boxed_str();
                self.labels = all.iter().map(label).zip(0..).collect();
                Some(settled)
            }
            Axis::Time(..) | Axis::Bin(..) => {
                let own: Vec<([u8; 8], u32)> =
                    self.numbers.iter().map(|(number, id)| (number.to_le_bytes(), *id)).collect();
                let own: Vec<(&[u8], u32)> = own.iter().map(|(bytes, id)| (&bytes[..], *id)).collect();
                let (all, settled) = united(team, &own);
                let number = |bytes: &Vec<u8>| get(&mut &bytes[..]) as i64;
                self.numbers = all.iter().map(number).zip(0..).collect();
                Some(settled)
            }
        }
    }

    /// The number of what a row has; none outside a grid.
    pub(crate) fn id(
        &mut self,
        fields: &[&str],
        columns: &[String],
        at: At<'_>,
    ) -> Result<Option<u32>, Error> {
        let field = self.fields[0];
        let (text, column) = (fields[field], &columns[field]);
        let whole = match &self.axis {
            Axis::Column(_) => return Ok(Some(intern(&mut self.labels, text.trim()))),
            Axis::Time(unit, _) => {
                let rule = "a date such as 2018-12-16 or 2018-12-16 09:30";
                unit.number(time(text).ok_or_else(|| wrong(text, column, at, rule))?)
            }
            Axis::Bin(_, width) => {
                // 0.7 / 0.1 is less than 7, but for rounding.
                let bin = number(text, column, at)? / width;
                let bin =
                    if (bin - bin.round()).abs() <= 1e-12 * bin.abs() { bin.round() } else { bin.floor() };
                if bin.abs() > 1e15 {
                    return Err(wrong(text, column, at, "at most 1e15 times the width of a bin"));
                }
                bin as i64
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
                // + 0.0 so that there is one zero.
                return Ok(Some(*self.points.entry([x, y].map(|v| (v + 0.0).to_bits())).or_insert(next)));
            }
        };
        let next = self.numbers.len() as u32;
        Ok(Some(*self.numbers.entry(whole).or_insert(next)))
    }

    /// Labels in order, and for every number its place among them. Those of the feature axis have no gaps.
    pub(crate) fn finish(&self, used: &[bool], is_feature: bool) -> Result<(Vec<String>, Vec<u32>), Error> {
        let mut index = vec![0; self.keys()];
        let names: Vec<String> = match &self.axis {
            Axis::Column(_) => {
                let mut labels: Vec<(&str, u32)> =
                    self.labels.iter().map(|(label, id)| (&**label, *id)).collect();
                labels.retain(|(_, id)| used[*id as usize]);
                in_order(&mut labels, |label| label.0);
                (0..).zip(&labels).for_each(|(place, (_, id))| index[*id as usize] = place);
                labels.into_iter().map(|(label, _)| label.to_owned()).collect()
            }
            Axis::Time(..) | Axis::Bin(..) => {
                let mut met: Vec<i64> = self
                    .numbers
                    .iter()
                    .filter(|(_, id)| used[**id as usize])
                    .map(|(number, _)| *number)
                    .collect();
                met.sort_unstable();
                let (first, last) = (met.first().copied().unwrap_or(0), met.last().copied().unwrap_or(0));
                let all = match (&self.axis, is_feature) {
                    (_, false) => met,
                    (Axis::Time(unit, _), true) => unit.between(first, last, MOST_FEATURES + 1),
                    _ if last.abs_diff(first) > MOST_FEATURES as u64 => (0..=MOST_FEATURES as i64).collect(),
                    _ => (first..=last).collect(),
                };
                for (number, id) in self.numbers.iter().filter(|(_, id)| used[**id as usize]) {
                    index[*id as usize] = all.binary_search(number).unwrap_or(0) as u32;
                }
                all.into_iter().map(|number| self.label(number)).collect()
            }
            Axis::Grid(grid) => {
                index = (0..self.keys() as u32).collect();
                grid.labels()
            }
        };
        if is_feature && names.len() > MOST_FEATURES {
            return Err(Error::Axis {
                text: self.axis.to_string(),
                rule: format!("of at most {MOST_FEATURES} labels: fibers are dense"),
            });
        }
        Ok((names, index))
    }

    /// Lowest and highest x and y of all ranks, if there are any points.
    fn range(&self, team: &dyn Team) -> Option<[(f64, f64); 2]> {
        let ranges = [0, 1].map(|axis| {
            let values = self.points.keys().map(|point| f64::from_bits(point[axis]));
            let [low, high] =
                [values.clone().fold(f64::INFINITY, f64::min), values.fold(f64::NEG_INFINITY, f64::max)];
            let mut own = Vec::new();
            [low, high].iter().for_each(|bound| put(&mut own, bound.to_bits()));
            let all = team.gather(own);
            let bound = |at: usize| all.iter().map(move |own| f64::from_bits(get(&mut &own[8 * at..])));
            let (low, high) =
                (bound(0).fold(f64::INFINITY, f64::min), bound(1).fold(f64::NEG_INFINITY, f64::max));
            // A grid has some extent.
            (low, if high > low { high } else { low + low.abs().max(1.0) })
        });
        ranges[0].0.is_finite().then_some(ranges)
    }

    fn label(&self, number: i64) -> String {
        match &self.axis {
            Axis::Time(unit, _) => unit.label(number),
            // 7 times 0.1 is 0.7.
            Axis::Bin(_, width) => {
                let low = number as f64 * width;
                format!("{}", format!("{low:.12e}").parse().unwrap_or(low))
            }
            _ => number.to_string(),
        }
    }
}

/// What all ranks have of something, each once and in one order; and for each number that this rank has given to its own, its place
/// there. Every one goes to a rank that its bytes tell, so that nobody is sent the same by all.
pub(crate) fn united(team: &dyn Team, own: &[(&[u8], u32)]) -> (Vec<Vec<u8>>, Vec<u32>) {
    let mut parcels = vec![Vec::new(); team.size()];
    for (bytes, _) in own {
        let mut hasher = FxHasher::default();
        hasher.write(bytes);
        put_bytes(&mut parcels[(hasher.finish() % team.size() as u64) as usize], bytes);
    }
    let parcels = team.exchange(parcels);
    let mut mine: Vec<&[u8]> = parcels.iter().flat_map(|parcel| all_bytes(parcel)).collect();
    mine.sort_unstable();
    mine.dedup();
    let mut parcel = Vec::new();
    mine.iter().for_each(|bytes| put_bytes(&mut parcel, bytes));
    let parcels = team.gather(parcel);
    let all: Vec<Vec<u8>> = parcels.iter().flat_map(|parcel| all_bytes(parcel)).map(<[u8]>::to_vec).collect();
    let places: FxHashMap<&[u8], u32> = all.iter().map(Vec::as_slice).zip(0..).collect();
    let mut settled = vec![0; own.len()];
    own.iter().for_each(|(bytes, id)| settled[*id as usize] = places[bytes]);
    (all, settled)
}

fn put_bytes(parcel: &mut Vec<u8>, bytes: &[u8]) {
    put(parcel, bytes.len() as u64);
    parcel.extend_from_slice(bytes);
}

/// What was put there.
fn all_bytes(mut parcel: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        (!parcel.is_empty()).then(|| {
            let length = get(&mut parcel) as usize;
            let (bytes, rest) = parcel.split_at(length);
            parcel = rest;
            bytes
        })
    })
}

/// The number of a label, in order of appearance.
pub(crate) fn intern(labels: &mut FxHashMap<Box<str>, u32>, label: &str) -> u32 {
    if let Some(id) = labels.get(label) {
        return *id;
    }
    let id = labels.len() as u32;
    labels.insert(label.into(), id);
    id
}
