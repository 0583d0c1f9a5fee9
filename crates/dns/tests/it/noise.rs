//! Arbitrary bytes instead of DNS: nothing panics, nothing hangs, nothing is taken for ours.

use std::time::Duration;

use holdfast_dns::{Limits, Resolver};
use proptest::prelude::*;

use crate::subject::{NAME, expectation, limits};
use holdfast_testkit::dns::{Behaviour, Server, parse_name};

/// The head of a good answer to a question for the name, then noise: most of it gets past the first checks.
fn nearly_dns() -> impl Strategy<Value = Vec<u8>> {
    let question = {
        let mut bytes = Vec::new();
        for label in &parse_name(NAME) {
            bytes.push(u8::try_from(label.len()).unwrap());
            bytes.extend(label);
        }
        bytes.extend([0, 0, 1, 0, 1]);
        bytes
    };
    let counts = (0..4_u8, 0..3_u8, 0..3_u8);
    (any::<u8>(), counts, prop::collection::vec(any::<u8>(), 0..200)).prop_map(
        move |(code, (answers, authorities, additionals), noise)| {
            let mut bytes = vec![0x81, code, 0, 1, 0, answers, 0, authorities, 0, additionals];
            bytes.extend(&question);
            bytes.extend(noise);
            bytes
        },
    )
}

fn look_at(bytes: Vec<u8>) -> holdfast_dns::Finding {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = Server::start([(NAME, Behaviour::Garbage(bytes))]).await;
        let limits = Limits {
            query: Duration::from_millis(20),
            look: Duration::from_millis(100),
            ..limits()
        };
        Resolver::new(Some(&[server.address]), limits).unwrap().look(&expectation()).await
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn garbage_is_never_taken_for_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        prop_assert!(look_at(bytes).note().is_some());
    }

    #[test]
    fn nearly_dns_is_never_taken_for_an_answer(bytes in nearly_dns()) {
        prop_assert!(look_at(bytes).note().is_some());
    }
}
