//! Two kinds of messages: small ones of a single number outside of exchanges, and parcels of bytes that are exchanged
//! piece by piece, because MPI counts the elements of a message in 32 bits.

use mpi::point_to_point::{Destination, Source};
use mpi::request::StaticScope;
use mpi::topology::{Communicator, SimpleCommunicator};
use mpi::{Count, Rank};

/// Sends a number to a rank, without waiting for its arrival.
///
/// The number is leaked, because nobody asks whether it has arrived: either it arrives, or the job is about to end.
pub(crate) fn send_number(world: &SimpleCommunicator, to: usize, number: u64, tag: i32) {
    let number: &'static u64 = Box::leak(Box::new(number));
    let to = world.process_at_rank(to as Rank);
    std::mem::forget(to.immediate_send_with_tag(StaticScope, number, tag));
}

/// Returns a number that has arrived, with the rank that sent it, or `None` if none has.
pub(crate) fn receive_number(world: &SimpleCommunicator, tag: i32) -> Option<(usize, u64)> {
    let from = world.any_process().immediate_probe_with_tag(tag)?.source_rank();
    let (number, _) = world.process_at_rank(from).receive_with_tag(tag);
    Some((from as usize, number))
}

/// Returns a zeroed buffer of this length, with a heap allocation even for length 0: the dangling pointer of an empty
/// `Vec` is 1, which is MPI_IN_PLACE for Open MPI.
pub(crate) fn buffer(bytes: Count) -> Vec<u8> {
    let mut buffer = Vec::with_capacity(1.max(bytes as usize));
    buffer.resize(bytes as usize, 0);
    buffer
}

/// Returns an empty parcel for each length, with capacity for that many bytes.
pub(crate) fn empty_parcels(lengths: &[u64]) -> Vec<Vec<u8>> {
    lengths.iter().map(|length| Vec::with_capacity(*length as usize)).collect()
}

/// Returns the piece of a parcel that is sent in a round; pieces have `piece` bytes, except for the last one.
pub(crate) fn piece_of(parcel: &[u8], piece: u64, round: u64) -> &[u8] {
    let from = (round * piece).min(parcel.len() as u64) as usize;
    &parcel[from..parcel.len().min(from + piece as usize)]
}

/// Returns the lengths of all pieces of a round, and the offset of each in the message.
pub(crate) fn layout(lengths: &[u64], piece: u64, round: u64) -> (Vec<Count>, Vec<Count>) {
    let count = |length: &u64| length.saturating_sub(round * piece).min(piece) as Count;
    let counts: Vec<Count> = lengths.iter().map(count).collect();
    let starts = counts.iter().scan(0, |sum, count| Some(std::mem::replace(sum, *sum + count))).collect();
    (counts, starts)
}

/// Appends the pieces of a message to their parcels.
pub(crate) fn append_pieces(parcels: &mut [Vec<u8>], message: &[u8], counts: &[Count], starts: &[Count]) {
    for ((parcel, count), start) in parcels.iter_mut().zip(counts).zip(starts) {
        parcel.extend_from_slice(&message[*start as usize..][..*count as usize]);
    }
}
