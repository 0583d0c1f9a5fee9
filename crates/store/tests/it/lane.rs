//! Lanes: a flood of one kind of work keeps no other waiting, neither for a worker nor for an order.

use std::collections::HashMap;

use holdfast_model::{DomainId, QueuePlace, State};
use holdfast_store::{Claimed, Lane, Room, SharedStore};

use crate::{kit::*, raw::Raw};

raw_on_both! {
    the_lane_is_what_the_row_says,
    a_flood_in_any_lane_keeps_no_other_waiting,
    what_is_shared_is_given_in_order_and_once,
    renewals_go_first_and_one_order_in_four_is_for_the_new,
    an_order_nobody_of_the_one_kind_wants_goes_to_the_other,
    a_place_far_back_is_not_counted,
}

/// Room in one lane alone.
fn only(lane: Lane, room: u32) -> Room {
    Room {
        lanes: Lane::ALL.map(|one| (one, if one == lane { room } else { 0 })),
        ..Room::shared(0)
    }
}

async fn claim_in(store: &SharedStore, room: &Room) -> Vec<Claimed> {
    store.claim_lanes(&claimant("w"), room, HOLD).await.unwrap().work
}

async fn every_certificate(raw: &Raw) {
    let imported = imported("with.example.com", "1");
    raw.store.add(&imported).await.unwrap();
    claim_all(&raw.store, &claimant("keeper")).await;
}

const FIRST_CERTIFICATE: &str = "certificate_id = (SELECT c.id FROM certificate c LIMIT 1)";

/// The `count` domains from this one on, as rows of a state, due.
async fn plant(raw: &Raw, from: usize, count: usize, set: &str) {
    let names = (from..from + count).map(|n| format!("'n{n:05}.example.com'"));
    let names = names.collect::<Vec<_>>().join(", ");
    raw.execute(&format!("UPDATE domain SET {set} WHERE name IN ({names})")).await;
}

async fn the_lane_is_what_the_row_says(raw: Raw) {
    every_certificate(&raw).await;
    let kinds: Vec<_> =
        State::ALL.iter().flat_map(|state| (0..80).map(move |flags| (*state, flags))).collect();
    add_numbered(&raw.store, kinds.len()).await;
    let mut sets = String::new();
    for (at, (state, flags)) in kinds.iter().enumerate() {
        let if_set =
            |bit: u8, set: &str| if flags & bit == 0 { String::new() } else { set.to_owned() };
        let order = if_set(1, &format!(", order_id = {}", raw.some_id()));
        let certificate = if_set(2, &format!(", {FIRST_CERTIFICATE}"));
        let wanted = if_set(4, ", wanted = 'retry'");
        let removing = if_set(8, ", removing_since = created_at");
        let error = match flags >> 4 {
            0 => "",
            1 => ", error_code = 'dns-silent', error_detail = ''",
            2 => ", error_code = 'dns-timeout', error_detail = ''",
            3 => ", error_code = 'dns-resolver-unreachable', error_detail = ''",
            _ => ", error_code = 'dns-nxdomain', error_detail = ''",
        };
        sets.push_str(&format!(
            "UPDATE domain SET state = '{state}'{order}{certificate}{wanted}{removing}{error} WHERE name = 'n{at:05}.example.com';"
        ));
    }
    raw.execute(&sets).await;
    let mut claimed = 0;
    for lane in Lane::ALL {
        let work = claim_in(&raw.store, &only(lane, 10_000)).await;
        assert!(!work.is_empty(), "{lane:?}");
        claimed += work.len();
        for one in work {
            assert_eq!(Lane::of(&one.domain), lane, "{:?}", one.domain);
        }
    }
    assert_eq!(claimed, kinds.len());
}

/// What makes a row one of a lane.
fn row_of(raw: &Raw, lane: Lane) -> String {
    match lane {
        Lane::Order => format!("state = 'AcmeChallengeValidating', order_id = {}", raw.some_id()),
        Lane::New => "state = 'DnsVerifying'".to_owned(),
        Lane::Edge => format!("state = 'CertificateDeploying', {FIRST_CERTIFICATE}"),
        Lane::Renewal => format!("state = 'AcmeOrderFailed', {FIRST_CERTIFICATE}"),
        Lane::Again => "state = 'DnsVerificationFailed'".to_owned(),
        Lane::Silent => "state = 'DnsVerifying', error_code = 'dns-silent'".to_owned(),
        Lane::Look => format!("state = 'Active', {FIRST_CERTIFICATE}"),
    }
}

async fn a_flood_in_any_lane_keeps_no_other_waiting(raw: Raw) {
    every_certificate(&raw).await;
    add_numbered(&raw.store, Lane::ALL.len() * 40).await;
    for (at, lane) in Lane::ALL.into_iter().enumerate() {
        plant(&raw, at * 40, 40, &row_of(&raw, lane)).await;
    }
    // Whichever lane is served first and takes all that is shared, every other gets what is kept for it.
    for first in Lane::ALL {
        let mut lanes = Lane::ALL.map(|lane| (lane, 2));
        lanes.sort_by_key(|(lane, _)| *lane != first);
        let work = claim_in(&raw.store, &Room { lanes, ..Room::shared(10) }).await;
        let mut counts: HashMap<Lane, u32> = HashMap::new();
        for one in &work {
            *counts.entry(Lane::of(&one.domain)).or_default() += 1;
        }
        for lane in Lane::ALL {
            assert_eq!(counts.get(&lane), Some(&if lane == first { 12 } else { 2 }), "{lane:?}");
        }
    }
}

/// Against the plainest reckoning there is.
async fn what_is_shared_is_given_in_order_and_once(raw: Raw) {
    every_certificate(&raw).await;
    add_numbered(&raw.store, 74).await;
    let rows: [usize; 7] = [3, 0, 7, 20, 20, 15, 9];
    for (at, lane) in Lane::ALL.into_iter().enumerate() {
        let from = rows[..at].iter().sum();
        if rows[at] > 0 {
            plant(&raw, from, rows[at], &row_of(&raw, lane)).await;
        }
    }
    for round in 0..12_usize {
        let mut lanes = Lane::ALL.map(|lane| (lane, 0));
        lanes.rotate_left(round % 7);
        for (at, (_, own)) in lanes.iter_mut().enumerate() {
            *own = u32::try_from(round * (at + 3) % 7).unwrap();
        }
        let mut room = Room { lanes, ..Room::shared(u32::try_from(round * 5 % 13).unwrap()) };
        room.apart[round % 7] = true;
        let (mut shared, mut expected) = (room.shared, HashMap::new());
        for (lane, own) in lanes {
            let there = u32::try_from(rows[Lane::ALL.iter().position(|one| *one == lane).unwrap()]);
            let apart = room.apart[lane as usize];
            let take = there.unwrap().min(if apart { own } else { own + shared });
            shared -= take.saturating_sub(own);
            if take > 0 {
                expected.insert(lane, take);
            }
        }
        let who = claimant("w");
        let work = raw.store.claim_lanes(&who, &room, HOLD).await.unwrap().work;
        let mut counts = HashMap::new();
        for one in &work {
            *counts.entry(Lane::of(&one.domain)).or_insert(0) += 1;
        }
        assert_eq!(counts, expected, "{room:?}");
        let claims: Vec<_> = work.iter().map(|one| (one.domain.id, one.epoch)).collect();
        raw.store.unclaim(&who, &claims).await.unwrap();
    }
}

/// In the queue, with a certificate and without.
async fn queue(raw: &Raw, renewing: usize, new: usize) {
    every_certificate(raw).await;
    add_numbered(&raw.store, renewing + new).await;
    for claimed in claim_all(&raw.store, &claimant("dns")).await {
        into_queue(&raw.store, claimed).await;
    }
    if renewing > 0 {
        plant(raw, 0, renewing, FIRST_CERTIFICATE).await;
    }
}

async fn admitted(store: &SharedStore, limit: u32) -> Vec<(DomainId, char)> {
    let account = account(store).await;
    let work = store.admit(&claimant("w"), account, MANY, limit, HOLD).await.unwrap().work;
    let kind = |one: &Claimed| if one.domain.certificate.is_some() { 'r' } else { 'n' };
    work.iter().map(|one| (one.domain.id, kind(one))).collect()
}

async fn renewals_go_first_and_one_order_in_four_is_for_the_new(raw: Raw) {
    queue(&raw, 30, 6).await;
    let last = raw.store.domain_named(&host("n00035.example.com")).await.unwrap().unwrap();
    assert_eq!(raw.store.queue_place(last.id).await.unwrap(), Some(QueuePlace::At(24)));
    let mut given = String::new();
    for _ in 0..8 {
        given.extend(admitted(&raw.store, 1).await.into_iter().map(|(_, kind)| kind));
    }
    assert_eq!(given, "rrrnrrrn");
    assert_eq!(raw.store.queue_place(last.id).await.unwrap(), Some(QueuePlace::At(16)));
    let many: String = admitted(&raw.store, 16).await.into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(many.matches('n').count(), 4, "{many}");
    assert_eq!(raw.store.queue_place(last.id).await.unwrap(), None);
}

async fn an_order_nobody_of_the_one_kind_wants_goes_to_the_other(raw: Raw) {
    queue(&raw, 3, 9).await;
    let kinds: String = admitted(&raw.store, 8).await.into_iter().map(|(_, kind)| kind).collect();
    assert_eq!((kinds.matches('r').count(), kinds.len()), (3, 8));
    assert_eq!(admitted(&raw.store, 8).await.len(), 4);
    assert!(admitted(&raw.store, 8).await.is_empty());
}

/// The queue may be as long as it will: a place is looked for among the first thousand.
async fn a_place_far_back_is_not_counted(raw: Raw) {
    queue(&raw, 0, 1_004).await;
    let place = async |n: usize| {
        let name = host(&format!("n{n:05}.example.com"));
        let id = raw.store.domain_named(&name).await.unwrap().unwrap().id;
        raw.store.queue_place(id).await.unwrap().unwrap()
    };
    // In the order in which they came in, whatever that was.
    let mut places = Vec::new();
    for n in 0..1_004 {
        places.push(place(n).await);
    }
    places.sort_unstable();
    let expected = (1..=1_000).map(QueuePlace::At).chain([QueuePlace::Beyond(1_000); 4]);
    assert!(places.into_iter().eq(expected));
    // Renewals go before three of four.
    plant(&raw, 0, 4, FIRST_CERTIFICATE).await;
    assert!(place(0).await <= QueuePlace::At(5), "{:?}", place(0).await);
}
