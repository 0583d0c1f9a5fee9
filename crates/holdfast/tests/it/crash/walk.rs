//! Records a story, then tells it once for every place it can be killed at.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::process::ExitStatusExt as _,
    sync::Mutex,
};

use super::{
    site::Site,
    story::{Story, Telling},
};
use crate::replica::{Database, Network};

pub(crate) async fn walk(database: Database, story: Story) {
    let occurrences = record(database, story).await;
    let jobs: Vec<String> = occurrences
        .iter()
        .flat_map(|(point, times)| (1..=*times).map(move |time| (point, time)))
        .flat_map(|(point, time)| ["before", "after"].map(|side| format!("{point}:{time}:{side}")))
        .collect();
    let jobs = sample(jobs, database);
    println!("{story:?} on {database:?}: {} places to be killed at", jobs.len());
    let firsts = jobs.iter().filter(|place| is_promised(story, place)).cloned();
    let firsts: Vec<String> = firsts.collect();
    let (jobs, struck) = (Mutex::new(jobs), Mutex::new(BTreeSet::new()));
    let lane = || lane(database, story, &jobs, &struck);
    tokio::join!(lane(), lane(), lane(), lane());
    let struck = struck.into_inner().unwrap();
    for place in firsts {
        assert!(struck.contains(&place), "{place} was never reached");
    }
}

/// Must every telling get there? The first time at each point that the story passes is so; a later one (a poll more or
/// less), and a point that only a slow machine passes (claims renewed), are of chance.
fn is_promised(story: Story, place: &str) -> bool {
    story.passes().iter().any(|point| place.starts_with(&format!("{point}:1:")))
}

/// PostgreSQL is walked place by place each time; SQLite so in `./dev soak`, and at every third place otherwise.
fn sample(mut jobs: Vec<String>, database: Database) -> Vec<String> {
    if database == Database::Sqlite && std::env::var_os("HOLDFAST_SOAK").is_none() {
        let mut at = 0;
        jobs.retain(|_| {
            at += 1;
            at % 3 == 0
        });
    }
    jobs
}

/// The recorded run: how often each point was passed.
async fn record(database: Database, story: Story) -> BTreeMap<String, u32> {
    let network = Network::start().await;
    story.unsettle(&network);
    let mut site = Site::prepare(&network, database, story.is_short_lived()).await;
    let recording = site.recording().display().to_string();
    site.start(Some(("HOLDFAST_CRASH_RECORD", recording))).await.unwrap();
    let mut telling = Telling::new(story, "recorded.test".into());
    story.tell(&site, &mut telling).await.unwrap();
    story.judge(&site, &network, &telling).await;
    let mut occurrences = BTreeMap::new();
    for line in std::fs::read_to_string(site.recording()).unwrap().lines() {
        *occurrences.entry(line.to_owned()).or_default() += 1;
    }
    for point in story.passes() {
        assert!(
            occurrences.contains_key(point.name()),
            "{point} is not in the recording: {occurrences:?}"
        );
    }
    occurrences.retain(|point, _| story.is_about(point));
    occurrences
}

/// Tells one after the other, on a network of its own.
async fn lane(
    database: Database,
    story: Story,
    jobs: &Mutex<Vec<String>>,
    struck: &Mutex<BTreeSet<String>>,
) {
    let network = Network::start().await;
    story.unsettle(&network);
    loop {
        let Some(place) = jobs.lock().unwrap().pop() else { return };
        if killed_at(&network, database, story, &place).await {
            struck.lock().unwrap().insert(place);
        }
    }
}

/// Tells the story with a kill at this place; was it reached?
async fn killed_at(network: &Network, database: Database, story: Story, place: &str) -> bool {
    let name = format!("{}.test", place.replace(['.', ':'], "-"));
    let mut telling = Telling::new(story, name);
    let mut site = Site::prepare(network, database, story.is_short_lived()).await;
    let started = site.start(Some(("HOLDFAST_CRASH", place.to_owned()))).await;
    let told = match started {
        Ok(()) => story.tell(&site, &mut telling).await,
        Err(died) => Err(died),
    };
    if told.is_err() {
        let status = site.ended().await.expect("it did not answer, yet it lives");
        assert_eq!(status.signal(), Some(6), "{place}: not by our abort but {status:?}");
    } else {
        // Not reached so far; it must not strike while we look at the result.
        site.kill().await;
    }
    site.start(story.restarts_with()).await.expect("it starts again");
    telling.restarted = true;
    story.tell(&site, &mut telling).await.unwrap_or_else(|_| panic!("{place}: it died again"));
    story.judge(&site, network, &telling).await;
    site.kill().await;
    told.is_err()
}
