//! Fibers that a growing dictionary does not explain.
//!
//! A pattern that it lacks would pull its neighbours away, so they teach nothing, and are kept for the search
//! (`grow.rs`). Where there are too many, some are drawn by lot. The lot of a fiber is its place's, so that the same are
//! drawn in whatever order they come and whichever rank has them.

use crate::data::tensor::Tensor;
use crate::discover::growth::MOST_FIBERS;
use crate::discover::scale::Scale;
use crate::discover::unit_fibers::Fibers;
use crate::parallel::team::{Team, get, put, put_all};

/// What the fibers of one rank show.
pub(crate) struct UnexplainedFibers {
    n: usize,
    /// None where nothing is known yet.
    scale: Option<Scale>,
    fibers: Drawn<Fibers>,
    /// What is left of the fibers that have a code.
    rests: Drawn<f64>,
    /// For each young pattern, one fiber that shows it, and its lot.
    young: Vec<Option<Young>>,
}

type Young = Option<(u64, Fibers)>;

/// What those of all ranks show.
pub(crate) struct Unexplained {
    pub(crate) fibers: Fibers,
    pub(crate) rests: Vec<f64>,
    /// A fiber for each young pattern that is shown, and which.
    pub(crate) showing: Fibers,
    pub(crate) shown: Vec<usize>,
}

/// Some of many things, [`MOST_FIBERS`] at most: those whose lots begin with so many zeros.
struct Drawn<T> {
    zeros: u32,
    things: Vec<(u64, T)>,
}

impl<T> Drawn<T> {
    fn new() -> Drawn<T> {
        Drawn { zeros: 0, things: Vec::new() }
    }

    fn add(&mut self, lot: u64, thing: impl FnOnce() -> T) {
        if lot.leading_zeros() >= self.zeros {
            self.things.push((lot, thing()));
            while self.things.len() > MOST_FIBERS {
                self.demand(self.zeros + 1);
            }
        }
    }

    fn demand(&mut self, zeros: u32) {
        self.zeros = zeros;
        self.things.retain(|thing| thing.0.leading_zeros() >= zeros);
    }

    /// For each number of zeros, how many lots have as many or more; none are known of fewer than are demanded here.
    fn counts(&self) -> Vec<i64> {
        let count =
            |zeros| self.things.iter().filter(|thing| thing.0.leading_zeros() >= zeros).count() as i64;
        let unknown = MOST_FIBERS as i64 + 1;
        (0..=u64::BITS).map(|zeros| if zeros < self.zeros { unknown } else { count(zeros) }).collect()
    }

    /// Of those of all ranks, no more than of one.
    fn settle(&mut self, counts: &[i64]) {
        let enough = counts.iter().take_while(|count| **count > MOST_FIBERS as i64).count();
        self.demand(self.zeros.max(enough as u32));
    }
}

impl UnexplainedFibers {
    pub(crate) fn new(n: usize, scale: Option<Scale>, young: &[bool]) -> UnexplainedFibers {
        let young = young.iter().map(|young| young.then_some(None)).collect();
        UnexplainedFibers { n, scale, fibers: Drawn::new(), rests: Drawn::new(), young }
    }

    /// Whether this fiber is one of them.
    pub(crate) fn add(
        &mut self,
        tensor: &Tensor<'_>,
        fiber: usize,
        code: &[(u32, f64)],
        energy: f64,
        rest: f64,
    ) -> bool {
        let lot = tensor.places()[fiber].hash();
        if !code.is_empty() {
            self.rests.add(lot, || rest.sqrt());
        }
        for &(pattern, _) in code {
            let first = |young: &Young| young.as_ref().is_none_or(|young| lot < young.0);
            if let Some(young) = self.young[pattern as usize].as_mut().filter(|young| first(young)) {
                *young = Some((lot, Fibers::one(tensor, fiber)));
            }
        }
        let stranger = energy > 0.0 && !self.scale.is_some_and(|s| s.explains(energy.sqrt(), rest.sqrt()));
        if stranger {
            self.fibers.add(lot, || Fibers::one(tensor, fiber));
        }
        stranger
    }

    /// Those of all ranks, by lot.
    pub(crate) fn gather(mut self, team: &dyn Team) -> Unexplained {
        let mut counts = [self.fibers.counts(), self.rests.counts()].concat();
        team.sum(&mut counts);
        let (of_fibers, of_rests) = counts.split_at(counts.len() / 2);
        self.fibers.settle(of_fibers);
        self.rests.settle(of_rests);
        let mut fibers = self.fibers.things;
        let mut rests = self.rests.things;
        let mut young: Vec<Young> = self.young.into_iter().map(Option::flatten).collect();
        if team.size() > 1 {
            let mut own = Vec::new();
            put_all(&mut own, &fibers, |own, (lot, fiber)| (put(own, *lot), fiber.write(own)).1);
            put_all(&mut own, &rests, |own, (lot, rest)| (put(own, *lot), put(own, rest.to_bits())).1);
            let mine: Vec<(u64, &(u64, Fibers))> = young
                .iter()
                .enumerate()
                .filter_map(|(at, young)| Some((at as u64, young.as_ref()?)))
                .collect();
            put_all(&mut own, &mine, |own, (pattern, (lot, fiber))| {
                put(own, *pattern);
                put(own, *lot);
                fiber.write(own);
            });
            (fibers, rests) = (Vec::new(), Vec::new());
            for parcel in team.gather(own) {
                let bytes = &mut &parcel[..];
                (0..get(bytes)).for_each(|_| fibers.push((get(bytes), Fibers::read(self.n, bytes))));
                (0..get(bytes)).for_each(|_| rests.push((get(bytes), f64::from_bits(get(bytes)))));
                for _ in 0..get(bytes) {
                    let (pattern, lot) = (get(bytes) as usize, get(bytes));
                    let fiber = Fibers::read(self.n, bytes);
                    if young[pattern].as_ref().is_none_or(|known| lot < known.0) {
                        young[pattern] = Some((lot, fiber));
                    }
                }
            }
        }
        fibers.sort_by_key(|fiber| fiber.0);
        rests.sort_by_key(|rest| rest.0);
        let mut strange = Unexplained {
            fibers: Fibers::new(self.n),
            rests: rests.into_iter().map(|rest| rest.1).collect(),
            showing: Fibers::new(self.n),
            shown: Vec::new(),
        };
        fibers.iter().for_each(|(_, fiber)| strange.fibers.take_all(fiber));
        for (pattern, young) in young.iter().enumerate() {
            if let Some((_, fiber)) = young {
                strange.showing.take_all(fiber);
                strange.shown.push(pattern);
            }
        }
        strange
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shape::Place;

    #[test]
    fn the_same_are_drawn_in_any_order() {
        let places =
            |from: u32, to: u32| (from..to).map(|at| Place { row: at % 1000, col: at / 1000 }.hash());
        let many = 5 * MOST_FIBERS as u32;
        let mut forth = Drawn::new();
        places(0, many).for_each(|lot| forth.add(lot, || lot));
        let mut back = Drawn::new();
        places(0, many).collect::<Vec<u64>>().into_iter().rev().for_each(|lot| back.add(lot, || lot));
        assert_eq!((forth.zeros, forth.things.len()), (back.zeros, back.things.len()));
        assert!(forth.things.len() > MOST_FIBERS / 4, "{} are few", forth.things.len());
        // Two ranks.
        let (mut some, mut others) = (Drawn::new(), Drawn::new());
        places(0, many / 3).for_each(|lot| some.add(lot, || lot));
        places(many / 3, many).for_each(|lot| others.add(lot, || lot));
        let counts: Vec<i64> = some.counts().iter().zip(others.counts()).map(|(a, b)| a + b).collect();
        some.settle(&counts);
        others.settle(&counts);
        let sorted = |drawn: &[Drawn<u64>]| {
            let mut lots: Vec<u64> =
                drawn.iter().flat_map(|drawn| drawn.things.iter().map(|t| t.0)).collect();
            lots.sort_unstable();
            lots
        };
        assert_eq!(sorted(&[some, others]), sorted(&[forth]));
    }
}
