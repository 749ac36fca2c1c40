//! Groups of rows and cols that share patterns of counts.
//!
//! ```text
//! M_ijk                                    the code of pattern i at row j and col k: a number of events
//! sqrt(M_ijk) ~ Poisson(sum_g G_jg x_gik)  G_jg: the share of row j in group g; x_gik: what col k has of it in pattern i
//! p_gijk = G_jg x_gik / sum_g G_jg x_gik   how the events at a place are divided among the groups
//! ```
//!
//! For each pattern and col, the rows with events are a fiber, and groups are the patterns of these fibers. So groups are
//! found as patterns are: their number is the smallest one that predicts hidden cells, and a group is in a sparse code only
//! if it makes the fiber significantly more likely. The fibers of all patterns have the same groups, because the same
//! people may take part in several patterns; a group may also have events in one pattern only. Roots are taken because a
//! few places often have most of the events.
//!
//! All events of a pattern are divided among the groups. So every row and every col with events is in a group, and where
//! hidden cells do not support several groups, all of them are in one.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use crate::data::codes::Codes;
use crate::data::dictionary::Dictionary;
use crate::data::sparse::Sparse;
use crate::discover::counts::hidden::CountFibers;
use crate::discover::counts::ladder::start;
use crate::encode::counts::CountCoder;
use crate::shape::Place;
use crate::stop::Stop;
use crate::untangle::factors::Factors;

/// Maximum number of groups.
const MOST_GROUPS: usize = 64;

/// Maximum number of rows that groups are found in: those with most events. The other rows join them.
const MOST_ROWS: usize = 2048;

/// Groups of rows and cols that share patterns, those with most events first.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    /// Column g has the number of events that each row has in group g (J x groups).
    pub rows: Sparse,
    /// Column g has the number of events that each col has in group g (K x groups).
    pub cols: Sparse,
    /// Column i has the share of each group in the events of pattern i (groups x m). The shares of a pattern add up to 1,
    /// unless it has no events.
    pub shares: Sparse,
}

impl Groups {
    /// No groups of this many patterns.
    pub(crate) fn none(patterns: usize) -> Groups {
        Sums::default().groups(0, 0, patterns)
    }

    /// Finds the groups of codes that are ordered by place.
    pub(crate) fn find(codes: &Codes, seed: u64) -> Groups {
        let fibers = fibers(codes);
        let mut sums = Sums::default();
        if let Some(coder) = GroupCoder::new(&fibers, seed) {
            let codes: Vec<Code> =
                fibers.par_iter().with_min_len(64).map(|fiber| coder.code(fiber)).collect();
            for (fiber, code) in fibers.iter().zip(&codes) {
                coder.divide(fiber, code, &mut sums);
            }
        }
        let (rows, cols) = codes.rows_and_cols();
        sums.groups(rows, cols, codes.matrix().rows())
    }

    /// Adds the rows and cols of these factors of counts that are in no group: they join the groups of the patterns that
    /// they take part in.
    pub(crate) fn join(&mut self, factors: &Factors) {
        let events: Vec<f64> =
            self.rows.columns().map(|column| column.iter().map(|entry| entry.1).sum()).collect();
        let total: f64 = events.iter().sum();
        let usual: Vec<(u32, f64)> = (0..).zip(events.iter().map(|events| events / total)).collect();
        let joined = |own: &Sparse, factor: &Sparse| {
            let known: BTreeSet<u32> = own.columns().flatten().map(|entry| entry.0).collect();
            let mut columns: Vec<BTreeMap<u32, f64>> =
                own.columns().map(|column| column.iter().copied().collect()).collect();
            for (shares, column) in self.shares.columns().zip(factor.columns()) {
                let shares = if shares.is_empty() { &usual } else { shares };
                // The factors of a pattern add up to the root of its events.
                let root: f64 = column.iter().map(|entry| entry.1).sum();
                for &(index, factor) in column.iter().filter(|entry| !known.contains(&entry.0)) {
                    for &(group, share) in shares {
                        *columns[group as usize].entry(index).or_default() += factor * root * share;
                    }
                }
            }
            let mut all = Sparse::new(own.rows().max(factor.rows()));
            columns.into_iter().for_each(|column| all.push(&column.into_iter().collect::<Vec<_>>()));
            all
        };
        (self.rows, self.cols) = (joined(&self.rows, &factors.rows), joined(&self.cols, &factors.cols));
    }
}

/// The rows that have events with one col in one pattern.
struct Fiber {
    /// The number of the pattern, and that of the col.
    place: Place,
    /// Rows, and their numbers of events.
    events: Vec<(u32, f64)>,
}

/// The fibers of the groups, ordered by pattern and col.
fn fibers(codes: &Codes) -> Vec<Fiber> {
    let by_pattern = codes.matrix().transpose();
    let place = |entry: &(u32, f64)| codes.places()[entry.0 as usize];
    let mut fibers = Vec::new();
    for (pattern, column) in (0..).zip(by_pattern.columns()) {
        for fiber in column.chunk_by(|a, b| place(a).col == place(b).col) {
            let events = fiber.iter().map(|entry| (place(entry).row, entry.1)).collect();
            fibers.push(Fiber { place: Place { row: pattern, col: place(&fiber[0]).col }, events });
        }
    }
    fibers
}

/// The rows that groups are found in.
struct LeadingRows(Vec<u32>);

impl LeadingRows {
    /// The rows with the largest sums of roots, by increasing number.
    fn of(fibers: &[Fiber]) -> LeadingRows {
        let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
        for (row, events) in fibers.iter().flat_map(|fiber| &fiber.events) {
            *sums.entry(*row).or_default() += events.sqrt();
        }
        let mut rows: Vec<(u32, f64)> = sums.into_iter().collect();
        rows.sort_by(|a, b| b.1.total_cmp(&a.1));
        rows.truncate(MOST_ROWS);
        let mut rows: Vec<u32> = rows.into_iter().map(|row| row.0).collect();
        rows.sort_unstable();
        LeadingRows(rows)
    }

    /// The place of a row in the list.
    fn find(&self, row: u32) -> Option<usize> {
        self.0.binary_search(&row).ok()
    }

    /// The roots of the events that leading rows have in a fiber.
    fn roots(&self, fiber: &Fiber) -> Vec<(u32, f64)> {
        let root = |&(row, events): &(u32, f64)| Some((self.find(row)? as u32, events.sqrt()));
        fiber.events.iter().filter_map(root).collect()
    }
}

/// The code of a fiber: groups, and how much the fiber has of each.
type Code = Vec<(u32, f64)>;

/// Groups that were found, and codes of fibers under them.
struct GroupCoder {
    rows: LeadingRows,
    /// Its dictionary is G: the share of each leading row in each group.
    coder: CountCoder,
    /// The share of each group in all fibers.
    usual: Code,
}

impl GroupCoder {
    /// Finds groups. None if there are no events.
    fn new(fibers: &[Fiber], seed: u64) -> Option<GroupCoder> {
        let rows = LeadingRows::of(fibers);
        let mut roots = CountFibers::new(rows.0.len());
        for fiber in fibers {
            let column = rows.roots(fiber);
            if !column.is_empty() {
                roots.fibers.push(&column);
                roots.places.push(fiber.place);
            }
        }
        if roots.len() == 0 {
            return None;
        }
        let find = |count: Option<usize>| start(&roots, count, seed, &Stop::default()).map(|found| found.fit);
        let fit =
            find(None).filter(|fit| fit.patterns() <= MOST_GROUPS).or_else(|| find(Some(MOST_GROUPS)))?;
        let events = &fit.events()[..fit.patterns()];
        let total: f64 = events.iter().sum();
        let shares: Vec<f64> = events.iter().map(|events| events / total).collect();
        let dictionary = Dictionary::with_unit_sums(rows.0.len(), fit.rows.columns());
        Some(GroupCoder {
            coder: CountCoder::new(&dictionary, &shares),
            usual: (0..).zip(shares).collect(),
            rows,
        })
    }

    /// The sparse code of a fiber. Without leading rows, it has the usual shares.
    fn code(&self, fiber: &Fiber) -> Code {
        let roots = self.rows.roots(fiber);
        match roots.is_empty() {
            true => self.usual.clone(),
            false => self.coder.sparse(&roots, &self.coder.soft(fiber.place, &roots)),
        }
    }

    /// Divides the events of a fiber among the groups of its code.
    fn divide(&self, fiber: &Fiber, code: &[(u32, f64)], sums: &mut Sums) {
        for &(row, events) in &fiber.events {
            // Other rows than the leading ones are divided as the col is.
            let shares = self.rows.find(row).map(|at| self.coder.rows().row(at));
            let part = |&(group, x): &(u32, f64)| x * shares.map_or(1.0, |shares| shares[group as usize]);
            let total: f64 = code.iter().map(part).sum();
            for entry in code {
                let place = Place { row, col: fiber.place.col };
                sums.add(entry.0, fiber.place.row, place, events * part(entry) / total);
            }
        }
    }
}

/// The events of each group: by row, by col and by pattern.
#[derive(Default)]
struct Sums {
    rows: BTreeMap<u32, BTreeMap<u32, f64>>,
    cols: BTreeMap<u32, BTreeMap<u32, f64>>,
    patterns: BTreeMap<u32, BTreeMap<u32, f64>>,
}

impl Sums {
    fn add(&mut self, group: u32, pattern: u32, place: Place, events: f64) {
        let sides = [(&mut self.rows, place.row), (&mut self.cols, place.col), (&mut self.patterns, pattern)];
        for (sums, index) in sides {
            *sums.entry(group).or_default().entry(index).or_default() += events;
        }
    }

    /// The groups that have events, those with most events first.
    fn groups(self, rows: usize, cols: usize, patterns: usize) -> Groups {
        let events = |group: &u32| self.patterns[group].values().sum::<f64>();
        let mut order: Vec<(f64, u32)> = self.patterns.keys().map(|group| (events(group), *group)).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0));
        let ordered = |sums: &BTreeMap<u32, BTreeMap<u32, f64>>, length: usize| {
            let mut all = Sparse::new(length);
            for (_, group) in &order {
                all.push(&sums[group].iter().map(|(index, events)| (*index, *events)).collect::<Vec<_>>());
            }
            all
        };
        let by_pattern = ordered(&self.patterns, patterns).transpose();
        let mut shares = Sparse::new(order.len());
        for column in by_pattern.columns() {
            let total: f64 = column.iter().map(|entry| entry.1).sum();
            shares.push(&column.iter().map(|&(group, events)| (group, events / total)).collect::<Vec<_>>());
        }
        Groups { rows: ordered(&self.rows, rows), cols: ordered(&self.cols, cols), shares }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::ModelKind;
    use crate::shape::Shape;

    /// Codes of events (pattern, row, col, events), in a tensor of this many rows and cols.
    fn codes(patterns: usize, size: usize, events: &[(u32, u32, u32, f64)]) -> Codes {
        let mut places: BTreeMap<u64, Vec<(u32, f64)>> = BTreeMap::new();
        for &(pattern, row, col, x) in events {
            places.entry(Place { row, col }.key()).or_default().push((pattern, x));
        }
        let mut matrix = Sparse::new(patterns);
        places.values_mut().for_each(|code| {
            code.sort_by_key(|entry| entry.0);
            matrix.push(code);
        });
        let places = places.into_keys().map(Place::from_key).collect();
        Codes::at(ModelKind::Counts, matrix, places, Shape { features: 1, rows: size, cols: size })
    }

    /// A number from 0 to 1 that looks random.
    fn noise(a: u32, b: u32) -> f64 {
        (Place { row: a, col: b }.hash() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Classes of ten people meet in pattern 0, and at `tables` tables they meet in pattern 1. Most of them meet.
    fn school(classes: u32, tables: u32) -> Vec<(u32, u32, u32, f64)> {
        let mut events = Vec::new();
        for row in 0..10 * classes {
            for col in (0..10 * classes).filter(|col| *col != row) {
                let x = noise(row, col);
                if row / 10 == col / 10 && x < 0.8 {
                    events.push((0, row, col, 1.0 + (20.0 * x).floor()));
                }
                if row % tables == col % tables && x > 0.2 {
                    events.push((1, row, col, 21.0 - (20.0 * x).floor()));
                }
            }
        }
        events
    }

    /// For each row (or col), the group with most of its events, out of some.
    fn main_groups(events: &Sparse, groups: &BTreeSet<u32>) -> BTreeMap<u32, u32> {
        let mut main: BTreeMap<u32, (u32, f64)> = BTreeMap::new();
        for &group in groups {
            for &(row, events) in events.column(group as usize) {
                let most = main.entry(row).or_default();
                if events > most.1 {
                    *most = (group, events);
                }
            }
        }
        main.into_iter().map(|(row, most)| (row, most.0)).collect()
    }

    #[test]
    fn groups_of_several_patterns_are_found() {
        let events = school(6, 4);
        let groups = Groups::find(&codes(2, 60, &events), 0);
        assert_eq!(groups.shares.rows(), 10);
        // Each pattern has groups of its own.
        let large = |pattern: usize| groups.shares.column(pattern).iter().filter(|entry| entry.1 > 0.05);
        assert_eq!((large(0).count(), large(1).count()), (6, 4));
        let all: f64 = events.iter().map(|event| event.3).sum();
        for side in [&groups.rows, &groups.cols] {
            let total: f64 = side.columns().flatten().map(|entry| entry.1).sum();
            assert!((total / all - 1.0).abs() < 1e-12, "all events are divided: {total} of {all}");
            // A person has most events in a group of the class, or in one of the table.
            for (pattern, group_of) in
                [(0, &(|person: u32| person / 10) as &dyn Fn(u32) -> u32), (1, &|person| person % 4)]
            {
                let own: BTreeSet<u32> = large(pattern).map(|entry| entry.0).collect();
                let main = main_groups(side, &own);
                assert_eq!(main.len(), 60);
                for (person, group) in &main {
                    let others = main.iter().filter(|other| group_of(*other.0) == group_of(*person));
                    assert!(others.map(|other| other.1).all(|other| other == group), "{main:?}");
                }
            }
        }
    }

    #[test]
    fn patterns_share_groups() {
        // The same classes meet in both patterns.
        let mut events: Vec<(u32, u32, u32, f64)> =
            school(5, 1).into_iter().filter(|event| event.0 == 0).collect();
        let later: Vec<_> = events.iter().map(|&(_, row, col, x)| (1, col, row, x + 2.0)).collect();
        events.extend(later);
        let groups = Groups::find(&codes(2, 50, &events), 1);
        assert_eq!(groups.shares.rows(), 5);
        assert!(groups.shares.columns().flatten().all(|entry| entry.1 > 0.1), "{:?}", groups.shares);
    }

    #[test]
    fn without_structure_everybody_is_in_one_group() {
        let mut events = Vec::new();
        for row in 0..30 {
            for col in 0..30 {
                let x = noise(row, col);
                if x < 0.3 {
                    events.push((0, row, col, 1.0 + (10.0 * x).floor()));
                }
            }
        }
        let groups = Groups::find(&codes(1, 31, &events), 3);
        assert_eq!(groups.shares.column(0), [(0, 1.0)]);
        assert_eq!(
            (groups.rows.cols(), groups.rows.column(0).len(), groups.cols.column(0).len()),
            (1, 30, 30)
        );
        let sum = |row: u32| events.iter().filter(|event| event.1 == row).map(|event| event.3).sum::<f64>();
        assert!(groups.rows.column(0).iter().all(|&(row, events)| (events - sum(row)).abs() < 1e-9));
    }

    #[test]
    fn a_pair_of_people_is_listed_once() {
        let mut events = vec![(0, 20, 21, 40.0), (0, 21, 20, 40.0)];
        events.extend(school(2, 3));
        let groups = Groups::find(&codes(2, 22, &events), 0);
        for (side, person) in [(&groups.rows, 20), (&groups.rows, 21), (&groups.cols, 20), (&groups.cols, 21)]
        {
            let with: Vec<f64> =
                side.columns().flatten().filter(|entry| entry.0 == person).map(|entry| entry.1).collect();
            assert!(with.iter().any(|events| *events > 38.0), "{with:?}");
        }
    }

    #[test]
    fn small_tables_have_groups() {
        let none = Groups::find(&codes(3, 5, &[]), 0);
        assert_eq!((none.rows.cols(), none.shares.rows(), none.shares.cols()), (0, 0, 3));
        assert_eq!(none, Groups { rows: Sparse::new(5), cols: Sparse::new(5), ..Groups::none(3) });
        // One event; one row with two cols; two rows with one col.
        for events in
            [&[(1, 4, 2, 1.0)][..], &[(1, 4, 2, 3.0), (1, 4, 3, 1.0)], &[(1, 3, 2, 3.0), (1, 4, 2, 1.0)]]
        {
            let groups = Groups::find(&codes(2, 5, events), 0);
            assert_eq!((groups.rows.cols(), groups.shares.column(0).len()), (1, 0));
            assert_eq!(groups.shares.column(1), [(0, 1.0)]);
        }
    }

    #[test]
    fn others_join_the_groups_of_their_patterns() {
        let mut groups = Groups::find(&codes(3, 60, &school(6, 4)), 0);
        let before = groups.clone();
        // Row 70 has 3 x 4 events of pattern 1, and row 5 is known already. Pattern 2 has no groups.
        let mut rows = Sparse::new(80);
        rows.push(&[(5, 2.0)]);
        rows.push(&[(5, 1.0), (70, 3.0)]);
        rows.push(&[(75, 2.0)]);
        groups.join(&Factors { cols: Sparse::new(60), rows, rank_one: vec![1.0; 3] });
        assert_eq!((&groups.cols, &groups.shares, groups.rows.rows()), (&before.cols, &before.shares, 80));
        for &(group, share) in groups.shares.column(1) {
            let (column, old) = (groups.rows.column(group as usize), before.rows.column(group as usize));
            assert_eq!(column[old.len()], (70, 3.0 * 4.0 * share));
            assert_eq!(&column[..old.len()], old);
        }
        let joined = |row: u32| groups.rows.columns().flatten().filter(move |entry| entry.0 == row);
        assert!((joined(75).map(|entry| entry.1).sum::<f64>() - 4.0).abs() < 1e-12);
        assert_eq!(joined(75).count(), 10);
    }
}
