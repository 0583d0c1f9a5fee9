//! The agent's loop: applied, seen, reported; and whatever can go wrong in between.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use holdfast_agent::{AgentConfig, Feed, Target, run_agent};
use holdfast_store::Revision;
use holdfast_testkit::{Scratch, eventually};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::kit::{AGES, Authority, Ground, Lie, Memory, Scripted};

pub(crate) struct Running {
    _stop: DropGuard,
    stop: CancellationToken,
    agent: JoinHandle<()>,
}

fn run(feed: Arc<dyn Feed>, target: Arc<dyn Target>, config: AgentConfig) -> Running {
    let stop = CancellationToken::new();
    let agent = tokio::spawn(run_agent(feed, target, config, stop.clone()));
    Running { _stop: stop.clone().drop_guard(), stop, agent }
}

/// A control plane, a target, and certificates.
pub(crate) struct Stage {
    pub(crate) memory: Arc<Memory>,
    pub(crate) target: Arc<Scripted>,
    pub(crate) authority: Authority,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let (memory, target) = (Arc::default(), Arc::default());
        Self { memory, target, authority: Authority::new() }
    }

    pub(crate) fn deploy(&self, host: &str) -> String {
        self.memory.deploy(&self.authority.issue(host))
    }

    pub(crate) fn run(&self) -> Running {
        run(self.memory.clone(), self.target.clone(), AgentConfig::default())
    }

    pub(crate) async fn until_acknowledged(&self, revision: Revision) {
        let wanted = |memory: &Memory| (memory.acknowledged() == revision).then_some(());
        self.memory.until(&format!("{revision:?} to be reported"), wanted).await;
    }
}

#[tokio::test]
async fn deployed_applied_seen_by_a_handshake_and_reported() {
    let ground = Ground::new().await;
    let running = run(ground.memory.clone(), ground.edge.clone(), AgentConfig::default());
    let first = ground.deploy("shop.test");
    ground.memory.until_seen("shop.test", Some(&first)).await;
    assert_eq!(ground.visitor().visit("shop.test").await.unwrap().sha256, first);
    let second = ground.deploy("shop.test");
    ground.memory.until_seen("shop.test", Some(&second)).await;
    assert_eq!(ground.visitor().visit("shop.test").await.unwrap().sha256, second);
    ground.memory.withdraw("shop.test");
    ground.memory.until_seen("shop.test", None).await;
    ground.visitor().refusal("shop.test").await;
    running.stop.cancel();
    running.agent.await.unwrap();
}

#[tokio::test]
async fn a_certificate_the_edge_cannot_serve_is_reported_and_the_others_are_served() {
    let ground = Ground::new().await;
    let _running = run(ground.memory.clone(), ground.edge.clone(), AgentConfig::default());
    let mut bad = ground.authority.issue("bad.test");
    bad.key = ground.authority.issue("other.test").key;
    ground.memory.deploy(&bad);
    let good = ground.deploy("good.test");
    ground.memory.until_seen("good.test", Some(&good)).await;
    let refused = |memory: &Memory| memory.observed("bad.test")?.error;
    let note = ground.memory.until("the refusal", refused).await;
    assert_eq!(note.code, "edge-certificate-unusable");
    let mended = ground.deploy("bad.test");
    ground.memory.until_seen("bad.test", Some(&mended)).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_reported_as_served_before_it_was_seen() {
    let stage = Stage::new();
    stage.target.ignore("liar.test");
    stage.deploy("liar.test");
    let good = stage.deploy("good.test");
    let _running = stage.run();
    stage.memory.until_seen("good.test", Some(&good)).await;
    let complaint = |memory: &Memory| memory.observed("liar.test")?.error;
    let note = stage.memory.until("the complaint", complaint).await;
    assert_eq!(note.code, "edge-does-not-serve");
    for report in stage.memory.reports() {
        for seen in report.observations {
            assert!(seen.domain != stage.memory.domain("liar.test") || seen.sha256.is_none());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_name_is_tried_again_alone_and_holds_nobody_up() {
    let stage = Stage::new();
    stage.target.refuse("bad.test", true);
    stage.deploy("first.test");
    let bad = stage.deploy("bad.test");
    let good = stage.deploy("good.test");
    let _running = stage.run();
    stage.memory.until_seen("good.test", Some(&good)).await;
    let refused = |memory: &Memory| memory.observed("bad.test")?.error;
    assert_eq!(stage.memory.until("the refusal", refused).await.code, "edge-refused");
    // A restart from here would try it again.
    assert!(stage.memory.acknowledged() < stage.memory.change("bad.test").revision);
    let late = stage.deploy("late.test");
    stage.memory.until_seen("late.test", Some(&late)).await;
    stage.target.refuse("bad.test", false);
    stage.memory.until_seen("bad.test", Some(&bad)).await;
    stage.until_acknowledged(stage.memory.at()).await;
    assert_eq!((stage.target.applied("good.test"), stage.target.applied("late.test")), (1, 1));
    assert!(stage.target.applied("bad.test") >= 4);
}

#[tokio::test(start_paused = true)]
async fn a_name_refused_for_long_lets_the_revision_pass_and_is_still_tried() {
    let stage = Stage::new();
    stage.target.refuse("bad.test", true);
    let bad = stage.deploy("bad.test");
    let _running = stage.run();
    let passed = |memory: &Memory| (memory.acknowledged() == memory.at()).then_some(());
    stage.memory.until_within(AGES, "the revision to pass", passed).await;
    let tried = stage.target.applied("bad.test");
    stage.target.refuse("bad.test", false);
    let seen =
        |memory: &Memory| memory.observed("bad.test")?.sha256.filter(|sha256| *sha256 == bad);
    stage.memory.until_within(AGES, "the name to be served", seen).await;
    assert!(stage.target.applied("bad.test") > tried);
}

#[tokio::test(start_paused = true)]
async fn signs_of_life_come_in_time_also_when_nothing_changes() {
    let stage = Stage::new();
    let _running = stage.run();
    for count in 1..=20 {
        let sign = |memory: &Memory| (memory.reports().len() >= count).then_some(());
        stage.memory.until_within(Duration::from_millis(10_001), "a sign of life", sign).await;
    }
    assert!(stage.memory.reports().iter().all(|report| report.observations.is_empty()));
    // Two hundred seconds, and each question waits for thirty.
    assert!(stage.memory.polls.load(Relaxed) <= 7);
}

#[tokio::test(start_paused = true)]
async fn a_restart_continues_from_the_reported_revision() {
    let stage = Stage::new();
    for n in 0..20 {
        stage.deploy(&format!("n{n}.test"));
    }
    let running = stage.run();
    stage.until_acknowledged(stage.memory.at()).await;
    assert_eq!(stage.target.applied_in_all(), 20);
    running.stop.cancel();
    running.agent.await.unwrap();
    let new = stage.deploy("new.test");
    let _running = stage.run();
    stage.memory.until_seen("new.test", Some(&new)).await;
    assert_eq!(stage.target.applied_in_all(), 21);
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_is_gone_makes_it_list_anew() {
    let stage = Stage::new();
    for n in 0..5 {
        stage.deploy(&format!("n{n}.test"));
    }
    let running = stage.run();
    stage.until_acknowledged(stage.memory.at()).await;
    running.stop.cancel();
    running.agent.await.unwrap();
    // Away for so long that what came next is not kept.
    stage.deploy("n6.test");
    stage.memory.forget_before(Revision { epoch: 0, number: 6 });
    let last = stage.deploy("n7.test");
    let _running = stage.run();
    stage.memory.until_seen("n7.test", Some(&last)).await;
    stage.until_acknowledged(stage.memory.at()).await;
    assert_eq!(stage.target.applied_in_all(), 5 + 7);
    assert_eq!(stage.target.listings(), ["began", "ended"]);
}

#[tokio::test(start_paused = true)]
async fn after_a_restored_backup_everything_is_listed_anew_while_it_runs() {
    let stage = Stage::new();
    let sha256 = stage.deploy("kept.test");
    for n in 0..5 {
        stage.deploy(&format!("n{n}.test"));
    }
    let config = AgentConfig { batch: 2, ..AgentConfig::default() };
    let _running = run(stage.memory.clone(), stage.target.clone(), config);
    stage.memory.until_seen("kept.test", Some(&sha256)).await;
    stage.until_acknowledged(stage.memory.at()).await;
    stage.memory.new_epoch();
    let new = stage.deploy("new.test");
    stage.memory.until_seen("new.test", Some(&new)).await;
    stage.until_acknowledged(stage.memory.at()).await;
    assert_eq!((stage.target.applied("kept.test"), stage.target.applied_in_all()), (2, 13));
    assert_eq!(stage.target.listings(), ["began", "ended, restored"]);
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_that_is_away_is_waited_for() {
    let stage = Stage::new();
    stage.memory.down.store(true, Relaxed);
    let _running = stage.run();
    let in_vain = async |count: usize| {
        eventually(AGES, "questions in vain", async || match stage.memory.refusals().len() {
            asked if asked >= count => Ok(()),
            asked => Err(asked),
        })
        .await;
    };
    in_vain(15).await;
    stage.memory.down.store(false, Relaxed);
    let first = stage.deploy("first.test");
    stage.memory.until_seen("first.test", Some(&first)).await;
    stage.memory.down.store(true, Relaxed);
    let second = stage.deploy("second.test");
    in_vain(stage.memory.refusals().len() + 50).await;
    stage.memory.down.store(false, Relaxed);
    stage.memory.until_seen("second.test", Some(&second)).await;
    assert_eq!(stage.memory.registrations.load(Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_that_asks_for_a_rest_gets_it() {
    let stage = Stage::new();
    let after = Duration::from_secs(8);
    stage.memory.be_busy(Some(after));
    let _running = stage.run();
    let refusals = eventually(AGES, "questions in vain", async || {
        let refusals = stage.memory.refusals();
        if refusals.len() < 10 { Err(refusals.len()) } else { Ok(refusals) }
    })
    .await;
    for pair in refusals.windows(2) {
        let rest = pair[1] - pair[0];
        // All of it, and up to a quarter more.
        assert!((after..=after + Duration::from_millis(2_010)).contains(&rest), "{rest:?}");
    }
    stage.memory.be_busy(None);
    let sha256 = stage.deploy("shop.test");
    stage.memory.until_seen("shop.test", Some(&sha256)).await;
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_the_reported_revision_goes_on_where_the_new_epoch_is() {
    let stage = Stage::new();
    for n in 0..6 {
        stage.deploy(&format!("n{n}.test"));
    }
    let _running = stage.run();
    stage.until_acknowledged(stage.memory.at()).await;
    // Three changes are lost, so that numbers begin below what was reported; and one name is refused from now on.
    stage.target.refuse("n2.test", true);
    stage.memory.restore(3);
    stage.deploy("n2.test");
    let refused = |memory: &Memory| memory.observed("n2.test")?.error;
    assert_eq!(stage.memory.until("the refusal", refused).await.code, "edge-refused");
    // What was reported of the epoch before does not count for this one: the name holds the revision back.
    stage.until_acknowledged(Revision { epoch: 1, number: 3 }).await;
    stage.target.refuse("n2.test", false);
    let new = stage.deploy("new.test");
    stage.memory.until_seen("new.test", Some(&new)).await;
    stage.until_acknowledged(Revision { epoch: 1, number: 5 }).await;
    let reported: Vec<_> = stage.memory.reports().iter().map(|report| report.up_to).collect();
    assert!(reported.is_sorted(), "{reported:?}");
}

/// Runs an agent to the end of six names.
async fn six_names(stage: &Stage, config: &AgentConfig) {
    for n in 0..6 {
        stage.deploy(&format!("n{n}.test"));
    }
    let running = run(stage.memory.clone(), stage.target.clone(), config.clone());
    stage.until_acknowledged(stage.memory.at()).await;
    running.stop.cancel();
    running.agent.await.unwrap();
}

/// An agent that is lied to says so, and goes on when it is told the truth.
async fn complained_of(stage: &Stage, config: AgentConfig, lie: Lie, code: &str) {
    stage.memory.lie(Some(lie));
    let _running = run(stage.memory.clone(), stage.target.clone(), config);
    let complaint = |memory: &Memory| memory.complaint().filter(|note| note.code == code);
    stage.memory.until(&format!("{lie:?} to be complained of"), complaint).await;
    stage.memory.lie(None);
    let new = stage.deploy("new.test");
    stage.memory.until_seen("new.test", Some(&new)).await;
}

/// A poll that is as old as this, and has nothing.
fn back_at(number: i64) -> Lie {
    Lie::Poll { up_to: Revision { epoch: 0, number }, gone: None }
}

/// The control plane has lost what was reported to it, too: only the agent's own note knows better.
#[tokio::test(start_paused = true)]
async fn a_poll_does_not_go_back_behind_what_was_kept() {
    let (stage, scratch) = (Stage::new(), Scratch::new().unwrap());
    let revision_file = Some(scratch.path().join("revision"));
    let config = AgentConfig { revision_file, ..AgentConfig::default() };
    six_names(&stage, &config).await;
    stage.memory.forget_reports_after(Revision { epoch: 0, number: 3 });
    complained_of(&stage, config, back_at(5), "edge-revision-went-back").await;
}

/// No note can be kept: what the agent is at counts nevertheless.
#[tokio::test(start_paused = true)]
async fn a_poll_does_not_go_back_behind_what_was_followed() {
    let (stage, scratch) = (Stage::new(), Scratch::new().unwrap());
    six_names(&stage, &AgentConfig::default()).await;
    let revision_file = Some(scratch.path().join("no/such/directory"));
    let config = AgentConfig { revision_file, ..AgentConfig::default() };
    complained_of(&stage, config, back_at(5), "edge-revision-went-back").await;
}

/// The agent is new, so that nothing is too old for it.
#[tokio::test(start_paused = true)]
async fn a_change_of_another_epoch_is_not_believed() {
    let stage = Stage::new();
    stage.memory.new_epoch();
    stage.deploy("shop.test");
    let up_to = stage.memory.at();
    let lie = Lie::Poll { up_to, gone: Some(Revision { epoch: 0, ..up_to }) };
    complained_of(&stage, AgentConfig::default(), lie, "edge-control-plane-nonsense").await;
}

#[tokio::test(start_paused = true)]
async fn a_proxy_that_is_away_is_complained_of_and_waited_for() {
    let stage = Stage::new();
    stage.target.broken.store(true, Relaxed);
    let sha256 = stage.deploy("shop.test");
    let _running = stage.run();
    let complaint = |memory: &Memory| memory.reports().last()?.error.clone();
    let note = stage.memory.until("the complaint", complaint).await;
    assert!(note.detail.contains("the proxy is away"), "{note}");
    assert_eq!(stage.memory.observed("shop.test"), None);
    stage.target.broken.store(false, Relaxed);
    stage.memory.until_seen("shop.test", Some(&sha256)).await;
    let content = |memory: &Memory| memory.reports().last()?.error.is_none().then_some(());
    stage.memory.until("the complaint to end", content).await;
}

#[tokio::test(start_paused = true)]
async fn an_edge_that_was_forgotten_registers_again() {
    let stage = Stage::new();
    let first = stage.deploy("first.test");
    let _running = stage.run();
    stage.memory.until_seen("first.test", Some(&first)).await;
    stage.memory.forget_edge();
    let second = stage.deploy("second.test");
    stage.memory.until_seen("second.test", Some(&second)).await;
    assert_eq!(stage.memory.registrations.load(Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_panic_starts_it_over() {
    let stage = Stage::new();
    stage.target.panics.store(true, Relaxed);
    let sha256 = stage.deploy("shop.test");
    let _running = stage.run();
    stage.memory.until_seen("shop.test", Some(&sha256)).await;
    assert_eq!(stage.memory.registrations.load(Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn many_changes_are_taken_in_bounded_portions() {
    let stage = Stage::new();
    // One certificate for all: issuing a thousand takes longer than the test.
    let pattern = stage.authority.issue("n.test");
    for n in 0..1_000 {
        let mut bundle = pattern.clone();
        bundle.name = crate::kit::name(&format!("n{n}.test"));
        stage.memory.deploy(&bundle);
    }
    let config = AgentConfig { batch: 100, probes: 16, observations: 40, ..AgentConfig::default() };
    let _running = run(stage.memory.clone(), stage.target.clone(), config);
    stage.until_acknowledged(stage.memory.at()).await;
    let reports = stage.memory.reports();
    assert!(reports.iter().all(|report| report.observations.len() <= 40));
    assert_eq!(reports.iter().map(|report| report.observations.len()).sum::<usize>(), 1_000);
    assert_eq!(stage.target.applied_in_all(), 1_000);
    assert_eq!(stage.target.probed("n999.test"), 1);
    assert_eq!(stage.target.most_probing.load(Relaxed), 16);
    // A revision is never reported before all that it covers.
    let mut seen = 0;
    for report in reports {
        seen += report.observations.len();
        assert!(
            report.up_to.number <= i64::try_from(seen).unwrap(),
            "{} of {seen}",
            report.up_to.number
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_observation_that_is_refused_keeps_no_other_back() {
    let stage = Stage::new();
    let hosts = ["a.test", "b.test", "c.test", "d.test"];
    let wanted = hosts.map(|host| (host, stage.deploy(host)));
    stage.memory.refuse_observations_of("b.test");
    let _running = stage.run();
    for (host, sha256) in wanted.iter().filter(|(host, _)| *host != "b.test") {
        stage.memory.until_seen(host, Some(sha256)).await;
    }
    stage.until_acknowledged(stage.memory.at()).await;
    assert_eq!(stage.memory.observed("b.test"), None);
}

#[tokio::test(start_paused = true)]
async fn who_answers_nothing_at_once_is_not_asked_without_end() {
    let stage = Stage::new();
    stage.memory.lie(Some(Lie::Hasty));
    let _running = stage.run();
    let sha256 = stage.deploy("shop.test");
    stage.memory.until_seen("shop.test", Some(&sha256)).await;
    let before = stage.memory.polls.load(Relaxed);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let asked = stage.memory.polls.load(Relaxed) - before;
    assert!((1..=200).contains(&asked), "{asked}");
}
