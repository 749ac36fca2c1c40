//! Typed messages between the ranks of a team, serialized with postcard.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::parallel::team::Team;

/// Sends `parcels[r]` to rank r and returns what every rank sent to this one, ordered by rank.
///
/// # Panics
/// If a parcel cannot be serialized, or another rank sent another type: all ranks must run the same program.
pub fn exchange<T: Serialize + DeserializeOwned>(team: &dyn Team, parcels: Vec<T>) -> Vec<T> {
    if team.size() == 1 {
        return parcels;
    }
    team.exchange(parcels.iter().map(serialize).collect()).iter().map(deserialize).collect()
}

/// Sends `own` to every rank and returns what every rank sent, ordered by rank.
///
/// # Panics
/// If `own` cannot be serialized, or another rank sent another type: all ranks must run the same program.
pub fn gather<T: Serialize + DeserializeOwned>(team: &dyn Team, own: T) -> Vec<T> {
    if team.size() == 1 {
        return vec![own];
    }
    team.gather(serialize(&own)).iter().map(deserialize).collect()
}

fn serialize<T: Serialize>(message: &T) -> Vec<u8> {
    postcard::to_stdvec(message).expect("messages between ranks can be serialized")
}

fn deserialize<T: DeserializeOwned>(bytes: impl AsRef<[u8]>) -> T {
    postcard::from_bytes(bytes.as_ref()).expect("all ranks run the same program")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::threads::run_ranks;

    #[test]
    fn messages_arrive_as_they_were_sent() {
        for size in 1..4 {
            run_ranks(size, |team| {
                let message = |from: usize, to: usize| (from, vec![to as f64, -0.0], format!("{from}{to}"));
                let sent = (0..size).map(|to| message(team.rank(), to)).collect();
                let expected: Vec<_> = (0..size).map(|from| message(from, team.rank())).collect();
                assert_eq!(exchange(team, sent), expected);
                assert_eq!(gather(team, team.rank()), (0..size).collect::<Vec<_>>());
            });
        }
    }
}
