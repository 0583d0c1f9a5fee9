//! What is stored of a certificate was altered: an edge says that it cannot load it, and the name gets another one.

use holdfast_model::{DomainId, Note, State};
use holdfast_store::{EdgeReport, EventBody, Observation, Page, UNUSABLE};
use holdfast_testkit::run_sql;

use crate::kit::{Backend, Setup, World, actor};

const CUT_KEY: &str = "UPDATE sealed SET value = substr(value, 1, 40) WHERE owner = 'certificate'";
/// A letter in the middle of the leaf.
const OTHER_LETTER: &str = "UPDATE certificate SET chain_pem = substr(chain_pem, 1, 299)
    || CASE substr(chain_pem, 300, 1) WHEN 'A' THEN 'B' ELSE 'A' END || substr(chain_pem, 301)";

impl World {
    async fn fingerprint(&self, id: DomainId) -> Option<String> {
        self.domain(id).await.certificate.map(|certificate| certificate.sha256)
    }

    /// The edge of this world says that it cannot load the certificate.
    async fn complains(&self, id: DomainId) {
        let edge = self.store.edges().await.unwrap().remove(0).id;
        let error = Some(Note::new(UNUSABLE, "as the test says"));
        let observations = vec![Observation { domain: id, sha256: None, error }];
        let report = EdgeReport { observations, ..EdgeReport::default() };
        self.store.observe(edge, &report, &actor()).await.unwrap();
    }

    async fn damages(&self, id: DomainId) -> Vec<String> {
        let page = Page { limit: 1_000, after: None };
        let history = self.store.history(id, &page).await.unwrap().items;
        let errors = history.into_iter().filter_map(|event| match event.body {
            EventBody::Transition { error, .. } => error,
            _ => None,
        });
        errors.map(|note| note.code.into_owned()).collect()
    }
}

async fn check(backend: Backend, damage: &str) {
    let world = World::start(Setup { backend, ..Setup::default() }).await;
    let id = world.add("shop.test").await;
    world.reaches(id, State::Active).await;
    let first = world.fingerprint(id).await;
    run_sql(&world.url, damage).unwrap();
    world.complains(id).await;
    let second = world
        .reaches_when(id, "another certificate", |domain| {
            domain.state == State::Active
                && domain.certificate.as_ref().map(|one| &one.sha256) != first.as_ref()
        })
        .await;
    assert!(second.last_error.is_none(), "{second:?}");
    assert_eq!(world.damages(id).await, [Note::CERTIFICATE_DAMAGED]);
    assert!(world.store.bundle(id).await.unwrap().is_some());
    // A disk that goes on so does not cost a certificate each time.
    run_sql(&world.url, damage).unwrap();
    world.complains(id).await;
    let waiting = world
        .reaches_when(id, "the damage to be told", |domain| {
            domain.last_error.as_ref().is_some_and(|note| note.code == Note::CERTIFICATE_DAMAGED)
        })
        .await;
    assert_eq!(waiting.state, State::Active);
    assert_eq!(world.ca_says("orders").await.len(), 2);
}

#[tokio::test]
async fn a_cut_key_on_sqlite() {
    check(Backend::Sqlite, CUT_KEY).await;
}

#[tokio::test]
async fn a_cut_key_on_postgres() {
    check(Backend::Postgres, CUT_KEY).await;
}

#[tokio::test]
async fn a_letter_of_the_chain_on_sqlite() {
    check(Backend::Sqlite, OTHER_LETTER).await;
}

#[tokio::test]
async fn a_letter_of_the_chain_on_postgres() {
    check(Backend::Postgres, OTHER_LETTER).await;
}

/// The disk damages the first certificate as it is written, and no other. No edge ever serves it.
const SPOIL_ON_SQLITE: &str = "CREATE TRIGGER spoil AFTER INSERT ON sealed
    WHEN NEW.owner = 'certificate' AND (SELECT count(*) FROM sealed WHERE owner = 'certificate') = 1
    BEGIN UPDATE sealed SET value = substr(value, 1, 40) WHERE owner = 'certificate'; END";
const SPOIL_ON_POSTGRES: &str =
    "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.owner = 'certificate' AND NOT EXISTS (SELECT FROM sealed WHERE owner = 'certificate')
            THEN NEW.value := substr(NEW.value, 1, 40); END IF;
        RETURN NEW; END $$;
    CREATE TRIGGER spoil BEFORE INSERT ON sealed FOR EACH ROW EXECUTE FUNCTION spoil()";

async fn spoiled_as_it_is_written(backend: Backend, spoil: &str) {
    let world = World::start(Setup { backend, ..Setup::default() }).await;
    run_sql(&world.url, spoil).unwrap();
    let id = world.add("shop.test").await;
    let active = world.reaches(id, State::Active).await;
    assert!(active.last_error.is_none(), "{active:?}");
    assert_eq!(world.damages(id).await, [Note::CERTIFICATE_DAMAGED]);
    assert_eq!(world.ca_says("orders").await.len(), 2);
    assert!(world.store.bundle(id).await.unwrap().is_some());
}

#[tokio::test]
async fn one_that_was_never_served_on_sqlite() {
    spoiled_as_it_is_written(Backend::Sqlite, SPOIL_ON_SQLITE).await;
}

#[tokio::test]
async fn one_that_was_never_served_on_postgres() {
    spoiled_as_it_is_written(Backend::Postgres, SPOIL_ON_POSTGRES).await;
}
