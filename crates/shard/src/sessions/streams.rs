//! The shards in which sessions and keys are at home, and the ids that lead there.

use capataz_crew::protocol::{place, placed};
use capataz_store::{BlobHash, RunId};

/// The stream of a session's events: a name has one, on every machine.
#[must_use]
pub fn session_stream(session: &str) -> RunId {
    let hash = BlobHash::of(format!("capataz session {session}").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(hash.0.first_chunk::<16>().unwrap_or(&[0; 16]));
    RunId(uuid::Builder::from_custom_bytes(bytes).into_uuid())
}

/// The id of a new run, out of one that was drawn: in its session's shard, else in its key's, else anywhere.
///
/// A key is unique in the shard where it is at home, so that whoever repeats a start with its key comes to the run of the
/// first time. A run that lives with its session registers its key there ([`crate::keys`]).
#[must_use]
pub fn run_id(drawn: RunId, session: Option<&str>, key: Option<&[u8]>) -> RunId {
    let wanted = session.map(session_stream).or(key.map(key_stream)).map(place);
    wanted.map_or(drawn, |wanted| placed(drawn, wanted))
}

/// An id in the shard where the key is at home. Nothing has this id.
#[must_use]
pub fn key_stream(key: &[u8]) -> RunId {
    let [place, ..] = BlobHash::of(&[b"capataz key ", key].concat()).0;
    placed(RunId::MIN, place)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use capataz_crew::protocol::home;
    use capataz_store::ShardId;

    use super::*;

    fn drawn(place: u8) -> RunId {
        RunId(uuid::Uuid::from_u128(0x0199_aaaa_bbbb_7ccc_8ddd_1122_3344_5500 | u128::from(place)))
    }

    #[test]
    fn a_run_lives_with_its_session_else_with_its_key_else_where_it_was_drawn() {
        let of_session = place(session_stream("talk"));
        let of_key = place(run_id(drawn(0), None, Some(b"order-7")));
        assert_ne!(of_session, of_key, "or this test shows nothing");
        for bits in [0, 1, 0x7f, 0xff] {
            assert_eq!(run_id(drawn(bits), None, None), drawn(bits));
            assert_eq!(run_id(drawn(bits), None, Some(b"order-7")), drawn(of_key));
            assert_eq!(run_id(drawn(bits), Some("talk"), None), drawn(of_session));
            assert_eq!(run_id(drawn(bits), Some("talk"), Some(b"order-7")), drawn(of_session));
        }
    }

    #[test]
    fn keys_and_sessions_are_spread_over_all_places() {
        let of_keys = |number: u32| place(run_id(drawn(0), None, Some(&number.to_be_bytes())));
        let of_sessions = |number: u32| place(session_stream(&number.to_string()));
        for places in [of_keys as fn(u32) -> u8, of_sessions] {
            let met: BTreeSet<u8> = (0..5_000).map(places).collect();
            assert_eq!(met.len(), 256);
        }
    }

    #[test]
    fn every_place_has_a_shard_however_many_there_are() {
        for count in [1u32, 2, 8, 256] {
            let shards: Vec<ShardId> = (0..count).map(ShardId).collect();
            let homes: BTreeSet<ShardId> =
                (0..=u8::MAX).filter_map(|bits| home(drawn(bits), &shards)).collect();
            assert_eq!(homes.len(), shards.len());
        }
        assert_eq!(home(drawn(1), &[]), None);
    }
}
