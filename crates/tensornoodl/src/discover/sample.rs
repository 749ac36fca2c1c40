//! A sample of the fibers of all ranks, for the first search.

use serde::{Deserialize, Serialize};

use crate::data::tensor::Tensor;
use crate::parallel::message::gather;
use crate::parallel::team::Team;
use crate::shape::Place;

/// Maximum number of fibers that ranks share for a first search.
const MAX_SHARED: usize = 1 << 18;

/// Some fibers of one rank: values column by column, and the place of each fiber.
#[derive(Serialize, Deserialize)]
struct Fibers {
    values: Vec<f64>,
    places: Vec<Place>,
}

/// Gathers the fibers of all ranks on every rank, ordered by place. If there are more than 262,144, only fibers whose
/// place has a hash with enough leading zero bits are taken. Also returns whether fibers were left out.
///
/// The result is the same for any number of ranks.
pub(crate) fn sample<'t>(team: &dyn Team, tensor: &'t Tensor<'_>) -> (Tensor<'t>, bool) {
    let zeros_of: Vec<u32> = tensor.places().iter().map(|place| place.hash().leading_zeros()).collect();
    let count = |zeros| zeros_of.iter().filter(|own| **own >= zeros).count() as i64;
    let mut counts: Vec<i64> = (0..=u64::BITS).map(count).collect();
    team.sum(&mut counts);
    let zeros = counts.iter().take_while(|count| **count > MAX_SHARED as i64).count() as u32;
    if team.size() == 1 && zeros == 0 {
        return (tensor.borrowed(), false);
    }
    let mut own = Fibers { values: Vec::new(), places: Vec::new() };
    for fiber in (0..zeros_of.len()).filter(|&fiber| zeros_of[fiber] >= zeros) {
        own.values.extend_from_slice(tensor.fiber(fiber));
        own.places.push(tensor.places()[fiber]);
    }
    let all = gather(team, own);
    let n = tensor.shape().features;
    let mut fibers: Vec<(Place, &[f64])> =
        all.iter().flat_map(|rank| rank.places.iter().copied().zip(rank.values.chunks_exact(n))).collect();
    fibers.sort_unstable_by_key(|fiber| fiber.0.key());
    let values = fibers.iter().flat_map(|fiber| fiber.1).copied().collect();
    let places = fibers.iter().map(|fiber| fiber.0).collect();
    (Tensor::trusted(tensor.shape(), values, places), zeros > 0)
}
