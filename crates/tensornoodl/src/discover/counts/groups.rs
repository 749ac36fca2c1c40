//! Groups of rows and cols that share patterns of counts.
//!
//! ```text
//! M_ijk                                    the code of pattern i at row j and col k: a number of events
//! sqrt(M_ijk) ~ Poisson(sum_g G_jg x_gik)  G_jg: the share of row j in group g; x_gik: what col k has of it in pattern i
//! sqrt(M_ijk) ~ Poisson(sum_g H_kg y_gij)  the same for rows, where H_kg is the share of col k in the x of group g
//! ```
//!
//! For each pattern and col, the rows with events are a fiber, and groups are the patterns of these fibers. So groups are
//! found as patterns are: their number is the smallest one that predicts hidden cells as well as more do, and a group is in
//! the code of a fiber only if leaving it out makes the fiber significantly less likely. All patterns have the same groups,
//! because the same people may take part in several patterns; a group may also have events in one pattern only. Roots are
//! taken because a few places often have most of the events.
//!
//! The events of each fiber are divided among the groups of its code. So every row and every col with events is in a group,
//! and where hidden cells do not support several groups, all of them are in one.

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;

use crate::data::codes::Codes;
use crate::data::dictionary::Dictionary;
use crate::data::sparse::Sparse;
use crate::discover::counts::hidden::CountFibers;
use crate::discover::counts::ladder::start;
use crate::discover::counts::mixture::Mixture;
use crate::encode::counts::CountCoder;
use crate::shape::Place;
use crate::stop::Stop;
use crate::untangle::factors::Factors;

/// Maximum number of groups.
const MOST_GROUPS: usize = 64;

/// Maximum number of rows that groups are found in: those with most events. The other rows join them.
const MOST_ROWS: usize = 1 << 10;

/// Maximum number of cells of these rows that are not empty, but for one row.
const MOST_CELLS: usize = 1 << 15;

/// Groups of rows and cols that share patterns, those with most events first.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    /// Column g has the number of events that each row has in group g (J x groups).
    pub rows: Sparse,
    /// Column g has the number of events that each col has in group g (K x groups).
    pub cols: Sparse,
    /// Column i has the share of each group in the events of pattern i (groups x m). The shares of a pattern add up
    /// to 1, unless it has no events.
    pub shares: Sparse,
}

impl Groups {
    /// No groups of this many patterns.
    pub(crate) fn none(patterns: usize) -> Groups {
        let mut shares = Sparse::new(0);
        (0..patterns).for_each(|_| shares.push(&[]));
        Groups { rows: Sparse::new(0), cols: Sparse::new(0), shares }
    }

    /// Finds the groups of codes.
    pub(crate) fn find(codes: &Codes, seed: u64) -> Groups {
        let patterns = codes.matrix().rows();
        let by_col = fibers(codes, |place| (place.col, place.row));
        let by_row = fibers(codes, |place| (place.row, place.col));
        let Some(groups) = GroupCoder::find(&by_col, seed) else { return Groups::none(patterns) };
        let cols = groups.divide(&by_col);
        let rows = groups.of_other_side(&cols).divide(&by_row);
        let order = cols.order();
        let (j, k) = codes.rows_and_cols();
        let shares = unit_sums(&matrix(&cols.patterns, &order, patterns));
        let events = |side: &Division, length: usize| matrix(&side.events, &order, length).transpose();
        Groups { rows: events(&rows, j), cols: events(&cols, k), shares }
    }

    /// Adds the rows and cols of these factors of counts that are in no group: they join the groups of the patterns
    /// that they take part in.
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

/// The rows that have events with one col in one pattern, or the cols that have events with one row.
struct Fiber {
    /// The number of the pattern, and that of the col (or row).
    place: Place,
    /// Rows (or cols), and their numbers of events.
    events: Vec<(u32, f64)>,
}

/// The fibers of the groups. `sides` returns the index of a fiber, and that of an entry.
fn fibers(codes: &Codes, sides: impl Fn(Place) -> (u32, u32)) -> Vec<Fiber> {
    let mut events: BTreeMap<(u32, u32), Vec<(u32, f64)>> = BTreeMap::new();
    for (place, code) in codes.places().iter().zip(codes.matrix().columns()) {
        let (index, other) = sides(*place);
        for &(pattern, x) in code {
            events.entry((pattern, index)).or_default().push((other, x));
        }
    }
    let fiber = |((pattern, index), mut events): ((u32, u32), Vec<(u32, f64)>)| {
        events.sort_unstable_by_key(|entry| entry.0);
        Fiber { place: Place { row: pattern, col: index }, events }
    };
    events.into_iter().map(fiber).collect()
}

impl Fiber {
    /// The roots of the events of some rows, with their places among these rows.
    fn roots(&self, rows: &[u32]) -> Vec<(u32, f64)> {
        let root = |&(row, events): &(u32, f64)| Some((rows.binary_search(&row).ok()? as u32, events.sqrt()));
        self.events.iter().filter_map(root).collect()
    }
}

/// Codes of fibers under groups.
struct GroupCoder {
    /// The rows that have shares in groups, by increasing number.
    rows: Vec<u32>,
    /// Its dictionary is G: the share of each of these rows in each group.
    coder: CountCoder,
    /// The share of each group in all fibers.
    usual: Vec<f64>,
}

impl GroupCoder {
    /// A coder for groups with these columns of G, whose sums are what each group has in all.
    fn new(rows: Vec<u32>, columns: Vec<f64>) -> GroupCoder {
        let mut usual: Vec<f64> =
            columns.chunks_exact(rows.len()).map(|column| column.iter().sum()).collect();
        let total: f64 = usual.iter().sum();
        usual.iter_mut().for_each(|share| *share /= total);
        let dictionary = Dictionary::with_unit_sums(rows.len(), columns);
        GroupCoder { coder: CountCoder::new(&dictionary, &usual), usual, rows }
    }

    /// Finds groups in fibers. None if there are no events.
    fn find(fibers: &[Fiber], seed: u64) -> Option<GroupCoder> {
        let rows = leading_rows(fibers);
        let mut roots = CountFibers::new(rows.len());
        for fiber in fibers {
            let column = fiber.roots(&rows);
            if !column.is_empty() {
                roots.fibers.push(&column);
                roots.places.push(fiber.place);
            }
        }
        if roots.len() == 0 {
            return None;
        }
        let fit = fit(roots, seed);
        let mut columns = fit.rows.columns();
        for (column, events) in columns.chunks_exact_mut(rows.len()).zip(fit.events()) {
            column.iter_mut().for_each(|share| *share *= events);
        }
        Some(GroupCoder::new(rows, columns))
    }

    /// Returns a coder for the fibers of the other side. It is made from the share that each col (or row) has in each group.
    fn of_other_side(&self, cols: &Division) -> GroupCoder {
        let (count, total) = (cols.roots.len(), cols.roots.values().flatten().sum::<f64>());
        let mut columns = vec![0.0; count * self.usual.len()];
        for (at, roots) in cols.roots.values().enumerate() {
            // The mean of all groups has the weight of one event in each group, so that no share is zero.
            let mean = roots.iter().sum::<f64>() / total;
            (0..)
                .zip(roots)
                .for_each(|(group, root): (usize, &f64)| columns[group * count + at] = root + mean);
        }
        GroupCoder::new(cols.roots.keys().copied().collect(), columns)
    }

    /// What a fiber has of each group: its sparse code, or the usual shares if none of its rows has shares in groups.
    fn code(&self, fiber: &Fiber) -> Vec<f64> {
        let roots = fiber.roots(&self.rows);
        if roots.is_empty() {
            return self.usual.clone();
        }
        let mut code = vec![0.0; self.usual.len()];
        if let Some(probable) = self.coder.codes(fiber.place, &roots).first() {
            probable.code.iter().for_each(|&(group, x)| code[group as usize] = x);
        }
        code
    }

    /// Divides the events of all fibers among the groups.
    fn divide(&self, fibers: &[Fiber]) -> Division {
        let codes: Vec<Vec<f64>> = fibers.par_iter().with_min_len(64).map(|fiber| self.code(fiber)).collect();
        let mut division = Division::default();
        for (fiber, code) in fibers.iter().zip(codes) {
            let events: f64 = fiber.events.iter().map(|entry| entry.1).sum();
            let scale = events / code.iter().sum::<f64>();
            let Place { row: pattern, col } = fiber.place;
            add(&mut division.roots, col, &code, 1.0);
            add(&mut division.events, col, &code, scale);
            add(&mut division.patterns, pattern, &code, scale);
        }
        division
    }
}

/// Fits groups to the roots of events. Their number is the smallest one that predicts hidden cells as well as more
/// do, as for patterns, but it is bounded.
fn fit(roots: CountFibers, seed: u64) -> Mixture {
    let found = start(roots, None, MOST_GROUPS, seed, &Stop::default());
    found.expect("the search is not stopped").fit
}

/// The rows with the largest sums of roots, by increasing number.
fn leading_rows(fibers: &[Fiber]) -> Vec<u32> {
    let mut sums: BTreeMap<u32, (f64, usize)> = BTreeMap::new();
    for (row, events) in fibers.iter().flat_map(|fiber| &fiber.events) {
        let sum = sums.entry(*row).or_default();
        *sum = (sum.0 + events.sqrt(), sum.1 + 1);
    }
    let mut rows: Vec<(u32, (f64, usize))> = sums.into_iter().collect();
    rows.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
    let mut cells = 0;
    let leading = rows.iter().take(MOST_ROWS).take_while(|(_, (_, own))| {
        let fits = cells == 0 || cells + own <= MOST_CELLS;
        cells += own;
        fits
    });
    let mut rows: Vec<u32> = leading.map(|row| row.0).collect();
    rows.sort_unstable();
    rows
}

/// Values for each group, by the number of a row, of a col or of a pattern.
type ByGroup = BTreeMap<u32, Vec<f64>>;

/// How the events of fibers are divided among the groups.
#[derive(Default)]
struct Division {
    /// The sum of the codes of each col (or row).
    roots: ByGroup,
    /// The number of events that each col (or row) has in each group.
    events: ByGroup,
    /// The number of events that each pattern has in each group.
    patterns: ByGroup,
}

impl Division {
    /// The groups that have events, those with most events first.
    fn order(&self) -> Vec<usize> {
        let mut sums = ByGroup::new();
        self.patterns.values().for_each(|events| add(&mut sums, 0, events, 1.0));
        let sums = sums.into_values().flatten().enumerate();
        let mut order: Vec<(usize, f64)> = sums.filter(|entry| entry.1 > 0.0).collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1));
        order.into_iter().map(|entry| entry.0).collect()
    }
}

/// Adds a multiple of values for each group.
fn add(sums: &mut ByGroup, index: u32, values: &[f64], scale: f64) {
    let sums = sums.entry(index).or_insert_with(|| vec![0.0; values.len()]);
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += scale * value);
}

/// The matrix of values (groups x length), with the groups in this order.
fn matrix(values: &ByGroup, order: &[usize], length: usize) -> Sparse {
    let mut matrix = Sparse::new(order.len());
    for index in 0..length as u32 {
        let values =
            values.get(&index).into_iter().flat_map(|values| order.iter().map(|group| values[*group]));
        matrix.push(&(0..).zip(values).filter(|entry| entry.1 > 0.0).collect::<Vec<_>>());
    }
    matrix
}

/// The matrix with columns scaled to sum 1.
fn unit_sums(matrix: &Sparse) -> Sparse {
    let mut scaled = Sparse::new(matrix.rows());
    for column in matrix.columns() {
        let total: f64 = column.iter().map(|entry| entry.1).sum();
        scaled.push(&column.iter().map(|&(index, value)| (index, value / total)).collect::<Vec<_>>());
    }
    scaled
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
        // Each class meets in both patterns.
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
        assert_eq!((none.shares.rows(), none.shares.cols()), (0, 3));
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

    #[test]
    fn more_rows_than_groups_are_found_in_are_in_groups() {
        let mut events = school(6, 4);
        let size = MOST_ROWS as u32 + 200;
        // Each of many others has an event with everybody of a class.
        events.extend((60..size).flat_map(|row| (0..10).map(move |col| (0, row, row % 6 * 10 + col, 1.0))));
        let groups = Groups::find(&codes(2, size as usize, &events), 0);
        let own: BTreeSet<u32> =
            groups.shares.column(0).iter().filter(|entry| entry.1 > 0.05).map(|entry| entry.0).collect();
        let (rows, cols) = (main_groups(&groups.rows, &own), main_groups(&groups.cols, &own));
        assert_eq!((own.len(), rows.len(), cols.len()), (6, size as usize, 60));
        for (row, group) in rows {
            let class = if row < 60 { row / 10 } else { row % 6 };
            assert_eq!(group, cols[&(10 * class)], "row {row}");
        }
    }

    #[test]
    fn groups_are_found_in_the_rows_with_most_events() {
        let fiber = |events: Vec<(u32, f64)>| Fiber { place: Place { row: 0, col: 0 }, events };
        let count = MOST_ROWS as u32 + 5;
        let rows = leading_rows(&[fiber((0..count).map(|row| (row, f64::from(row % 7 + 1))).collect())]);
        assert_eq!((rows.len(), rows[0], rows.is_sorted()), (MOST_ROWS, 0, true));
        // The last five rows with one event.
        let missing: Vec<u32> = (0..count).filter(|row| rows.binary_search(row).is_err()).collect();
        assert_eq!(missing, [994, 1001, 1008, 1015, 1022]);
        // Two rows with more than half of the cells: one of them is left out.
        let fibers: Vec<Fiber> =
            (0..MOST_CELLS * 2 / 3).map(|_| fiber(vec![(3, 1.0), (4, 1.0), (9, 4.0)])).collect();
        assert_eq!(leading_rows(&fibers), [9]);
    }
}
