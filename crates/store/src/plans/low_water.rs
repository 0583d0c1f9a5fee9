//! While a snapshot is held, what is gone from an index stays in it: looks from a mark do not pass it. What lies below a mark is found a
//! minute later, by a look from the beginning.

use std::time::Duration;

use holdfast_model::State;
use holdfast_testkit::{Durability, Postgres};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use super::{
    kit::{HOLD, MANY, account, add, add_numbered, claimant, opened},
    postgres::{TELL, number, told},
};
use crate::{Lane, MasterKey, NewWebhook, OrderLimits, Room, Secret, SharedStore, WebhookId};

/// How many times whatever is looked for was moved while the snapshot was held.
const MOVES: usize = 20;

/// A server that tells what it reads, a thousand domains, and a snapshot as a dump holds it.
struct Held {
    server: Postgres,
    url: String,
    store: SharedStore,
    raw: PgConnection,
    _dump: PgConnection,
}

impl Held {
    async fn start() -> Self {
        let server = Postgres::start(Durability::Relaxed).await.unwrap();
        let (url, key) = (server.database().await.unwrap(), MasterKey::generate().unwrap());
        let database = url.rsplit_once('/').unwrap().1;
        add_numbered(&opened(&url, &key).await, 1_000).await;
        let mut raw = PgConnection::connect(&url).await.unwrap();
        let mut dump = PgConnection::connect(&url).await.unwrap();
        for setting in TELL {
            let tell = AssertSqlSafe(format!("ALTER DATABASE {database} SET {setting}"));
            raw.execute(tell).await.unwrap();
        }
        dump.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM domain")
            .await
            .unwrap();
        let store = opened(&url, &key).await;
        Self { server, url, store, raw, _dump: dump }
    }

    async fn raw(&mut self, statement: &str) {
        self.raw.execute(AssertSqlSafe(statement.to_owned())).await.unwrap();
    }

    async fn moved(&mut self, statement: &str) {
        for _ in 0..MOVES {
            self.raw(statement).await;
        }
    }

    /// How many blocks of an index this reads.
    async fn blocks<T>(&self, index: &str, look: impl AsyncFn() -> T) -> (T, u64) {
        let seen = self.server.process().log().len();
        let found = look().await;
        (found, blocks_of(&told(&self.server, &self.url).await[seen..], index))
    }

    /// Looks twice, the second time from a mark; gives what each found.
    async fn twice<T>(&self, index: &str, look: impl AsyncFn() -> T) -> [T; 2] {
        let (first, whole) = self.blocks(index, &look).await;
        let (second, marked) = self.blocks(index, &look).await;
        assert!(marked * 5 < whole, "{index}: {marked} blocks from the mark, {whole} in all");
        [first, second]
    }
}

/// What looks at this index read.
fn blocks_of(log: &str, index: &str) -> u64 {
    let lines: Vec<_> = log.lines().collect();
    let is_look = |line: &str| line.contains(&format!("Scan using {index} on"));
    let looks = (0..lines.len()).filter(|at| is_look(lines[*at]));
    let buffers = |at: usize| lines[at..].iter().find(|line| line.contains("Buffers: "));
    let blocks = looks.filter_map(buffers);
    blocks.map(|line| number(line, "shared hit=") + number(line, " read=")).sum()
}

/// From now on a look from the beginning is due.
async fn a_minute_later() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(61)).await;
    tokio::time::resume();
}

#[tokio::test]
async fn due_domains() {
    let mut held = Held::start().await;
    held.moved("UPDATE domain SET due_at = clock_timestamp() - interval '1 minute'").await;
    held.raw("UPDATE domain SET due_at = clock_timestamp() + interval '1 hour'").await;
    add(&held.store, "new.example.com").await;
    let (store, who) = (&held.store, claimant("worker"));
    let mark = store.ping().await.unwrap().minus(Duration::from_secs(30));
    let mut blocks = Vec::new();
    for since in [Some(mark), None] {
        let room = Room { since: [since; Lane::ALL.len()], ..Room::shared(10) };
        let look = async || store.claim_lanes(&who, &room, HOLD).await.unwrap().work;
        let (work, read) = held.blocks("domain_room", look).await;
        assert_eq!(work.len(), 1);
        store.unclaim(&who, &[(work[0].domain.id, work[0].epoch)]).await.unwrap();
        blocks.push(read);
    }
    assert!(blocks[0] * 5 < blocks[1], "{blocks:?} blocks from the mark and from the beginning");
}

#[tokio::test]
async fn who_stays() {
    let mut held = Held::start().await;
    held.moved("UPDATE domain SET entered_at = clock_timestamp() - interval '1 hour'").await;
    held.raw("UPDATE domain SET state = 'Active'").await;
    let stays = |name: &str, since: &str| {
        format!(
            "UPDATE domain SET state = 'Initial', entered_at = clock_timestamp() - interval '{since}' WHERE name = '{name}'"
        )
    };
    held.raw(&stays("n00007.example.com", "10 minutes")).await;
    let store = held.store.clone();
    let staying = async || {
        let over = Duration::from_secs(60);
        store.staying(State::Initial, over, 10).await.unwrap().len()
    };
    assert_eq!(held.twice("domain_stay", staying).await, [1, 1]);
    held.raw(&stays("n00008.example.com", "2 hours")).await;
    assert_eq!(staying().await, 1, "it lies below the mark");
    a_minute_later().await;
    assert_eq!(staying().await, 2);
}

async fn webhook(store: &SharedStore) -> WebhookId {
    let secret = Secret::from("whsec_x".to_owned());
    let new = NewWebhook { url: "https://a.example.com".to_owned(), events: Vec::new(), secret };
    store.keep_webhook(&new).await.unwrap().id
}

/// A message with a lane of its own, due since then.
async fn due(held: &mut Held, webhook: WebhookId, many: u32, since: &str) {
    held.raw(&format!(
        "INSERT INTO delivery (id, webhook_id, lane, kind, body, created_at, due_at)
        SELECT gen_random_uuid(), '{}', gen_random_uuid()::text, 'k', '{{}}', clock_timestamp() - interval '{since}',
            clock_timestamp() - interval '{since}' FROM generate_series(1, {many})",
        webhook.0
    ))
    .await;
}

#[tokio::test]
async fn deliveries() {
    let mut held = Held::start().await;
    let id = webhook(&held.store).await;
    due(&mut held, id, 1_000, "1 minute").await;
    held.moved("UPDATE delivery SET due_at = due_at + interval '1 second', created_at = created_at - interval '1 second'")
        .await;
    held.raw("UPDATE delivery SET due_at = NULL, ended_at = clock_timestamp()").await;
    due(&mut held, id, 1, "1 second").await;
    let store = held.store.clone();
    let list = async || store.webhooks().await.unwrap().remove(0);
    let listed = held.twice("delivery_open", list).await;
    assert!(listed[0].next_due_at.is_some() && listed[0] == listed[1], "{listed:?}");
    let claim = async || store.claim_deliveries(id, 10, HOLD).await.unwrap().len();
    assert_eq!(held.twice("delivery_due", claim).await, [1, 0]);

    due(&mut held, id, 1, "1 hour").await;
    let marked = list().await;
    assert_eq!(marked.open_since, listed[0].open_since, "it lies below the mark");
    assert_eq!(claim().await, 0);
    a_minute_later().await;
    let whole = list().await;
    assert!(whole.next_due_at < listed[0].next_due_at, "{whole:?}");
    assert!(whole.open_since < listed[0].open_since, "{whole:?}");
    assert_eq!(claim().await, 1);
}

#[tokio::test]
async fn when_a_message_is_due_next() {
    let mut held = Held::start().await;
    let id = webhook(&held.store).await;
    due(&mut held, id, 1_000, "1 minute").await;
    held.moved("UPDATE delivery SET due_at = due_at + interval '1 second'").await;
    held.raw("UPDATE delivery SET due_at = NULL, ended_at = clock_timestamp()").await;
    let store = held.store.clone();
    let next = async || store.webhooks().await.unwrap().remove(0).next_due_at;
    assert_eq!(held.twice("delivery_due", next).await, [None, None]);
}

#[tokio::test]
async fn the_queue_for_orders() {
    let mut held = Held::start().await;
    held.moved("UPDATE domain SET state = 'AcmeOrdering', due_at = NULL, queued_at = clock_timestamp() - interval '1 hour'")
        .await;
    held.raw("UPDATE domain SET queued_at = NULL").await;
    let queue = |name: &str, since: &str| {
        format!(
            "UPDATE domain SET queued_at = clock_timestamp() - interval '{since}' WHERE name = '{name}'"
        )
    };
    held.raw(&queue("n00007.example.com", "10 minutes")).await;
    let (store, id) = (held.store.clone(), account(&held.store).await);
    let who = claimant("worker");
    let admit = async || store.admit(&who, id, MANY, 10, HOLD).await.unwrap().work.len();
    assert_eq!(held.twice("domain_waiting", admit).await, [1, 0]);
    held.raw(&queue("n00008.example.com", "2 hours")).await;
    assert_eq!(admit().await, 0, "it lies below the mark");
    a_minute_later().await;
    assert_eq!(admit().await, 1);
}

#[tokio::test]
async fn orders_in_flight() {
    let mut held = Held::start().await;
    let (store, id) = (held.store.clone(), account(&held.store).await);
    let who = claimant("worker");
    let open = |account: crate::AccountId, since: &str, of: &str| {
        format!(
            "INSERT INTO acme_order (id, domain_id, account_id, cost, created_at)
            SELECT gen_random_uuid(), id, '{}', 1, clock_timestamp() - interval '{since}' FROM domain WHERE name LIKE '{of}'",
            account.0
        )
    };
    held.raw(&open(id, "1 hour", "%")).await;
    held.moved("UPDATE acme_order SET created_at = created_at + interval '1 second'").await;
    held.raw("UPDATE acme_order SET ended_at = clock_timestamp()").await;
    // One is in the queue at each look, so that orders are counted.
    held.raw(
        "UPDATE domain SET state = 'AcmeOrdering', due_at = NULL, queued_at = clock_timestamp()",
    )
    .await;
    let one = OrderLimits { in_flight: 3, ..MANY };
    let admit = async || store.admit(&who, id, one, 1, HOLD).await.unwrap().work.len();
    assert_eq!(held.twice("acme_order_opened", admit).await, [1, 1]);
    held.raw(&open(id, "2 hours", "n0009%")).await;
    assert_eq!(admit().await, 1, "those lie below the mark");
    held.raw("UPDATE acme_order SET ended_at = clock_timestamp() WHERE created_at > clock_timestamp() - interval '30 minutes'")
        .await;
    a_minute_later().await;
    assert_eq!(admit().await, 0);
}
