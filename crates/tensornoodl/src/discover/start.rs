//! The first dictionary, and what speaks for it: how many patterns does a tensor have, and are they the same if one
//! looks again?
//!
//! The paper is given A(0) and m (A.2). On data that follows the model both can be found; on other data the number of
//! patterns is a judgement, and what it rests on is measured here: what each further pattern explains of fibers it was not
//! found in, and whether two halves of the data, other draws of it and other random numbers lead to the same patterns.

use rand::seq::index;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::data::dictionary::Dictionary;
use crate::data::tensor::Tensor;
use crate::discover::growth::{DiscoverParams, Discovery, MOST_FIBERS};
use crate::discover::scale::Scale;
use crate::discover::search::{Account, Search};
use crate::discover::unit_fibers::Fibers;
use crate::error::Error;
use crate::linalg::product::transposed_product;
use crate::parallel::team::{Team, get, put};
use crate::shape::Place;

/// Patterns found in a tensor, those that explain most first.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Start {
    /// The patterns; there may be none.
    pub dictionary: Dictionary,
    /// What is known of each.
    pub findings: Vec<Finding>,
    /// The units of the data. None where too little is explained to tell.
    pub scale: Option<Scale>,
    /// Fibers of the tensor that are as long as the floor.
    pub fibers: usize,
    /// Those of them that the patterns explain.
    pub explained: usize,
    /// Those of the latter that are explained by few patterns: half as many as the fiber has entries, or as sqrt(n), the order
    /// that the theory has (A.4), at most. A fiber with one entry is none of them: it needs a pattern of its own.
    pub few: usize,
    /// Share of the energy of the whole tensor that the patterns explain.
    pub energy: f64,
    /// Shorter fibers were not searched.
    pub floor: f64,
}

/// What is known of one pattern.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// What its fibers had in common when it was found, relative to the most that chance finds in as many.
    pub evidence: f64,
    /// Fibers that show it.
    pub fibers: usize,
    /// Share of the energy of the whole tensor that it explains.
    pub energy: f64,
}

/// Finds the patterns of a tensor from nothing.
pub fn find(tensor: &Tensor<'_>, grow: &DiscoverParams) -> Result<Start, Error> {
    grow.check()?;
    let mut growth = Discovery::new(tensor.shape().features, grow.clone());
    let columns = growth.start(tensor);
    if grow.stop.is_set() {
        return Err(Error::Stopped);
    }
    Start::new(tensor, &columns, &growth.evidence(), growth.scale, grow.floor)
}

impl Start {
    /// Patterns, column by column, with the evidence of each, and what they explain.
    fn new(
        tensor: &Tensor<'_>,
        columns: &[f64],
        evidence: &[f64],
        scale: Option<Scale>,
        floor: f64,
    ) -> Result<Start, Error> {
        let n = tensor.shape().features;
        let account = account(tensor, columns, scale, floor);
        // What is shorter than the floor has energy too.
        let energy: f64 = tensor.values().iter().map(|y| y * y).sum();
        let share = |explained: f64| if energy > 0.0 { explained / energy } else { 0.0 };
        let mut order: Vec<usize> = (0..evidence.len()).collect();
        order.sort_by(|&a, &b| account.energies[b].total_cmp(&account.energies[a]));
        let mut dictionary = Dictionary::empty(n);
        dictionary.append(order.iter().flat_map(|&i| columns[i * n..][..n].to_vec()).collect())?;
        let finding = |&i: &usize| Finding {
            evidence: evidence[i],
            fibers: account.shown[i],
            energy: share(account.energies[i]),
        };
        Ok(Start {
            dictionary,
            findings: order.iter().map(finding).collect(),
            scale,
            fibers: account.fibers,
            explained: account.explained,
            few: account.few,
            energy: share(0.0 + account.energies.iter().sum::<f64>()),
            floor,
        })
    }

    /// Only those patterns that most searches find, this one and four with other random numbers.
    fn steady(self, tensor: &Tensor<'_>, grow: &DiscoverParams) -> Result<Start, Error> {
        let n = self.dictionary.features();
        let floor = self.floor;
        let mut searches = vec![self];
        for seed in 1..=AGAIN {
            searches.push(find(tensor, &DiscoverParams { seed: grow.seed ^ seed << 32, ..grow.clone() })?);
        }
        let (mut columns, mut evidence) = (Dictionary::empty(n), Vec::new());
        for search in &searches {
            let known = same(&search.dictionary, &columns);
            for i in (0..known.len()).filter(|&i| !known[i]) {
                let pattern = search.dictionary.pattern(i);
                let mut one = Dictionary::empty(n);
                one.append(pattern.to_vec())?;
                let times = searches.iter().filter(|other| agreeing(&one, &other.dictionary) == 1).count();
                if times >= MOST_OF {
                    columns.append(pattern.to_vec())?;
                    evidence.push(search.findings[i].evidence);
                }
            }
        }
        // Of a search that found some.
        let scale = searches.iter().find_map(|search| search.scale).filter(|_| !evidence.is_empty());
        Start::new(tensor, columns.values(), &evidence, scale, floor)
    }
}

/// Where patterns explain less than this share of the energy, or fewer than this share of the explained fibers by a few
/// patterns, the data does not follow the model closely.
const CLOSE: f64 = 0.9;

/// The same for data that may follow the model only roughly.
///
/// Where it does, every fiber that is not noise is made of patterns, and all of them are found. OtherRank short
/// fibers tend to be many, alike for want of entries, and of little energy, and each kind of them would be a pattern (as many
/// as features, which explain anything); and
/// patterns that are hardly clearer than chance come and go with the random numbers. So unless the patterns of all fibers
/// explain nine tenths of the energy, and nine of ten fibers by a few of them each, only those of fibers above the [`energy_floor`] are taken, and of these, unless
/// their number was asked for, those that four of five searches find, or if that is none, or leaves more than a tenth of the
/// energy that those do, those that both halves of the fibers have; and the floor is the unit of codes.
pub fn find_stable(tensor: &Tensor<'_>, grow: &DiscoverParams) -> Result<Start, Error> {
    let all = find(tensor, grow)?;
    if all.energy >= CLOSE && all.few as f64 >= CLOSE * all.explained as f64 {
        return Ok(all);
    }
    let grow = DiscoverParams { floor: energy_floor(tensor).max(grow.floor), ..grow.clone() };
    let long = find(tensor, &grow)?;
    let mut start = if grow.max_patterns.is_some() { long } else { long.steady(tensor, &grow)? };
    // In few dimensions chance is near to everything, and the clearest patterns are no clearer. Those that either half of
    // the fibers has, and that explain the other half, are patterns all the same.
    if grow.max_patterns.is_none() && start.energy < CLOSE {
        let (count, energy) = agreed(tensor, &grow)?;
        if count > 0 && (energy >= CLOSE || start.findings.is_empty()) {
            start = find(
                tensor,
                &DiscoverParams { min_patterns: count, max_patterns: Some(count), ..grow.clone() },
            )?;
        }
    }
    if let Some(scale) = &mut start.scale {
        // Codes begin at half the floor (C/2), so that short fibers, which are many, do not teach either.
        (scale.code, scale.floor) = (grow.floor, grow.floor);
    }
    Ok(start)
}

/// Most fibers that ranks share for a first search.
const MOST_SHARED: usize = 1 << 18;

/// The fibers that all ranks have, for all of them: the same as one alone would have, in the order of their places. Where they are more
/// than 262,144, some, drawn by lot; and whether that is so.
pub(crate) fn sample<'t>(team: &dyn Team, tensor: &'t Tensor<'_>) -> (Tensor<'t>, bool) {
    let lots: Vec<u32> = tensor.places().iter().map(|place| place.hash().leading_zeros()).collect();
    let mut counts: Vec<i64> =
        (0..=u64::BITS).map(|zeros| lots.iter().filter(|lot| **lot >= zeros).count() as i64).collect();
    team.sum(&mut counts);
    let zeros = counts.iter().take_while(|count| **count > MOST_SHARED as i64).count() as u32;
    if team.size() == 1 && zeros == 0 {
        return (tensor.borrowed(), false);
    }
    let mut own = Vec::new();
    for fiber in (0..lots.len()).filter(|&fiber| lots[fiber] >= zeros) {
        put(&mut own, tensor.places()[fiber].key());
        tensor.fiber(fiber).iter().for_each(|value| put(&mut own, value.to_bits()));
    }
    let parcels = team.gather(own);
    let size = 8 * (1 + tensor.shape().features);
    let mut all: Vec<(u64, &[u8])> = Vec::new();
    for mut fiber in parcels.iter().flat_map(|parcel| parcel.chunks_exact(size)) {
        all.push((get(&mut fiber), fiber));
    }
    all.sort_unstable_by_key(|fiber| fiber.0);
    let values = all.iter().flat_map(|(_, fiber)| fiber.as_chunks().0);
    let values = values.map(|bytes| f64::from_le_bytes(*bytes)).collect();
    let places = all.iter().map(|fiber| Place::from_key(fiber.0)).collect();
    (Tensor::trusted(tensor.shape(), values, places), zeros > 0)
}

/// Half of the length above which fibers have half of the energy, whatever the scale.
pub fn energy_floor(tensor: &Tensor<'_>) -> f64 {
    let energy = |fiber: usize| tensor.fiber(fiber).iter().map(|y| y * y).sum::<f64>();
    let mut energies: Vec<f64> = (0..tensor.fibers()).map(energy).collect();
    energies.sort_by(|a, b| b.total_cmp(a));
    let half = energies.iter().sum::<f64>() / 2.0;
    let mut sum = 0.0;
    let middle = energies.iter().find(|&&energy| {
        sum += energy;
        sum >= half
    });
    middle.map_or(0.0, |energy| energy.sqrt() / 2.0)
}

/// What patterns explain of all fibers that are long enough.
fn account(tensor: &Tensor<'_>, columns: &[f64], scale: Option<Scale>, floor: f64) -> Account {
    let n = tensor.shape().features;
    let search = Search::new(n, columns.iter().map(|&a| a as f32).collect(), scale, 0, 0);
    let all: Vec<usize> = (0..tensor.fibers()).collect();
    let mut sum = search.account(&Fibers::new(n));
    for some in all.chunks(MOST_FIBERS) {
        let mut fibers = Fibers::new(n);
        some.iter().for_each(|&fiber| fibers.push(tensor, fiber));
        fibers.keep_longer(floor);
        sum.add(&search.account(&fibers));
    }
    sum
}

/// What speaks for a number of patterns.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Evidence {
    /// From one pattern to a few more than were found.
    pub ladder: Vec<HeldOut>,
    /// Patterns that each half of the fibers has by itself.
    pub halves: [usize; 2],
    /// The same fibers searched with other random numbers.
    pub seeds: Vec<Repeat>,
    /// Seven tenths of the fibers, drawn anew each time.
    pub samples: Vec<Repeat>,
}

/// The first patterns of either half of the fibers.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct HeldOut {
    /// How many.
    pub patterns: usize,
    /// Share of the energy of the other half that they explain.
    pub energy: f64,
    /// How many of them the first ones of the other half have too.
    pub agree: usize,
}

/// A further search.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Repeat {
    /// Patterns that it found.
    pub patterns: usize,
    /// Patterns of the first search that it found too.
    pub agree: usize,
}

/// Two patterns are the same if their cosine is at least this.
const SAME: f64 = 0.9;

/// Further searches of each kind.
const AGAIN: u64 = 4;

/// Of all five searches, so many have to find a pattern.
const MOST_OF: usize = 4;

/// Rungs above those that are clearer than chance.
const ABOVE: usize = 8;

/// Fibers of a half or a sample, at most.
const MOST_IN_SAMPLE: usize = 2 * MOST_FIBERS;

/// Measures what speaks for the patterns found. `done` is told how much of the work is, from 0 to 1.
pub fn evidence(
    tensor: &Tensor<'_>,
    start: &Start,
    grow: &DiscoverParams,
    mut done: impl FnMut(f64),
) -> Result<Evidence, Error> {
    let grow = &DiscoverParams { floor: start.floor, ..grow.clone() };
    let parts = (2 * AGAIN + 4) as f64;
    let mut part = 0.0;
    let mut next = || {
        part += 1.0;
        done(part / parts);
    };
    let mut rng = ChaCha8Rng::seed_from_u64(grow.seed ^ 0x6576_6964);
    let again = |tensor: &Tensor<'_>, grow: &DiscoverParams| {
        let other = find(tensor, grow)?.dictionary;
        Ok::<Repeat, Error>(Repeat { patterns: other.patterns(), agree: agreeing(&start.dictionary, &other) })
    };
    let (mut seeds, mut samples) = (Vec::new(), Vec::new());
    for _ in 0..AGAIN {
        seeds.push(again(tensor, &DiscoverParams { seed: rng.random(), ..grow.clone() })?);
        next();
    }
    let p = tensor.fibers();
    for _ in 0..AGAIN {
        let some = index::sample(&mut rng, p, (7 * p / 10).min(MOST_IN_SAMPLE)).into_vec();
        samples.push(again(&part_of(tensor, some), grow)?);
        next();
    }

    let halves = halves(tensor, &mut rng);
    let mut found = Vec::new();
    for half in &halves {
        found.push(find(half, grow)?);
        next();
    }
    let counts = [found[0].findings.len(), found[1].findings.len()];
    // The ladder goes on above what is clear.
    if grow.max_patterns.is_none() {
        let further = |count: usize| DiscoverParams { min_patterns: count + ABOVE, ..grow.clone() };
        for (at, half) in halves.iter().enumerate() {
            found[at] = find(half, &further(counts[at]))?;
            next();
        }
    }
    let top = found[0].findings.len().max(found[1].findings.len());
    let mut ladder = Vec::new();
    for patterns in rungs(top, start.findings.len()) {
        ladder.push(rung(&halves, &found, patterns)?);
    }
    done(1.0);
    Ok(Evidence { ladder, halves: counts, seeds, samples })
}

/// Two halves of the fibers, or of as many as are enough.
fn halves(tensor: &Tensor<'_>, rng: &mut ChaCha8Rng) -> [Tensor<'static>; 2] {
    let p = tensor.fibers();
    let shuffled = index::sample(rng, p, p.min(2 * MOST_IN_SAMPLE)).into_vec();
    let (left, right) = shuffled.split_at(shuffled.len() / 2);
    [part_of(tensor, left.to_vec()), part_of(tensor, right.to_vec())]
}

/// What the first patterns of either half say of the other.
fn rung(halves: &[Tensor<'_>; 2], found: &[Start], patterns: usize) -> Result<HeldOut, Error> {
    let (mut energy, mut rest) = (0.0, 0.0);
    let n = halves[0].shape().features;
    let first = |start: &Start| start.dictionary.values()[..n * patterns.min(start.findings.len())].to_vec();
    for (half, other) in [(0, 1), (1, 0)] {
        // Everything counts, however short.
        let account = account(&halves[other], &first(&found[half]), found[half].scale, 0.0);
        energy += account.energy;
        rest += account.rest;
    }
    let dictionary = |columns: Vec<f64>| {
        let mut dictionary = Dictionary::empty(n);
        dictionary.append(columns).map(|()| dictionary)
    };
    let agree = agreeing(&dictionary(first(&found[0]))?, &dictionary(first(&found[1]))?);
    let energy = if energy > 0.0 { 1.0 - rest / energy } else { 0.0 };
    Ok(HeldOut { patterns, energy, agree })
}

/// A further pattern explains at least this share of the energy of fibers it was not found in.
const WORTH: f64 = 0.01;

/// So many patterns does either half of the fibers have by itself, each worth something to the other half, and the share of
/// its energy that they explain.
fn agreed(tensor: &Tensor<'_>, grow: &DiscoverParams) -> Result<(usize, f64), Error> {
    let halves = halves(tensor, &mut ChaCha8Rng::seed_from_u64(grow.seed ^ 0x6861_6c66));
    let grow = DiscoverParams { min_patterns: ABOVE, ..grow.clone() };
    let found = [find(&halves[0], &grow)?, find(&halves[1], &grow)?];
    let (mut taken, mut before) = (0, 0.0);
    for patterns in 1..=found[0].findings.len().min(found[1].findings.len()) {
        let rung = rung(&halves, &found, patterns)?;
        // Patterns of the same energy come in any order, so that fewer may not be the same ones.
        if rung.agree == patterns && rung.energy >= before + WORTH * (patterns - taken) as f64 {
            (taken, before) = (patterns, rung.energy);
        }
    }
    Ok((taken, before))
}

/// One by one at first, then in larger steps; the number taken and the last are among them.
fn rungs(top: usize, taken: usize) -> Vec<usize> {
    let mut rungs: Vec<usize> = [top, taken].into_iter().filter(|rung| (1..=top).contains(rung)).collect();
    let mut next = 1;
    while next < top {
        rungs.push(next);
        next += (next / 12).max(1);
    }
    rungs.sort_unstable();
    rungs.dedup();
    rungs
}

fn part_of(tensor: &Tensor<'_>, mut fibers: Vec<usize>) -> Tensor<'static> {
    fibers.sort_unstable();
    let values = fibers.iter().flat_map(|&fiber| tensor.fiber(fiber)).copied().collect();
    let places = fibers.iter().map(|&fiber| tensor.places()[fiber]).collect();
    Tensor::trusted(tensor.shape(), values, places)
}

/// How many patterns the other dictionary has too.
pub(crate) fn agreeing(dictionary: &Dictionary, other: &Dictionary) -> usize {
    same(dictionary, other).into_iter().filter(|same| *same).count()
}

/// For every pattern, whether the other dictionary has it too.
fn same(dictionary: &Dictionary, other: &Dictionary) -> Vec<bool> {
    let (n, m, count) = (dictionary.features(), dictionary.patterns(), other.patterns());
    let mut cosines = vec![0.0; m * count];
    if m * count > 0 {
        transposed_product(&mut cosines, other.values(), dictionary.values(), n);
    }
    (0..m).map(|i| cosines[i * count..][..count].iter().any(|c| c.abs() >= SAME)).collect()
}
