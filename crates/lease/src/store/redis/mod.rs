//! Leases in Redis: one hash each, one script for all operations, the server's clock.
//!
//! Terms can fall back here, by a lost server without persistence, by failover, by FLUSHALL. What must not happen under an
//! old term is fenced in a database where terms are registered: [`crate::fence`].

mod address;
mod listener;
mod reading;

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use redis::{FromRedisValue, Script, ScriptInvocation};

pub use self::address::RedisAddress;
use self::address::{Link, Route};
use super::{Listener, Look, Store};
use crate::error::{Error, StoreError};
use crate::identity::{Holder, Incarnation, Name, Term};
use crate::request::{Acquire, Acquired, Ask, At, Force, Release, Renew, Renewed};
use crate::row::{Entry, Row};

const SCRIPT: &str = include_str!("lease.lua");

/// Leases in Redis.
pub struct RedisStore {
    address: RedisAddress,
    route: Route,
    prefix: String,
    limit: Duration,
    link: Option<Link>,
    script: Script,
    /// The leases that this process has entered in the list of all.
    listed: BTreeSet<Name>,
}

impl RedisStore {
    /// Leases under this prefix. Connects at the first call.
    pub fn new(
        address: RedisAddress,
        key_prefix: &str,
        request_timeout: Duration,
    ) -> Result<Self, Error> {
        let route = Route::parse(&address, request_timeout)?;
        Ok(Self {
            address,
            route,
            prefix: key_prefix.replace(['{', '}'], ""),
            limit: request_timeout,
            link: None,
            script: Script::new(SCRIPT),
            listed: BTreeSet::new(),
        })
    }

    fn channel(&self) -> String {
        format!("{}wake", self.prefix)
    }

    fn names_key(&self) -> String {
        format!("{}names", self.prefix)
    }

    fn key(&self, name: &Name) -> String {
        format!("{}{{{name}}}", self.prefix)
    }

    /// An invocation with the keys of one lease and of its history. The name is the hash tag, so that both lie in one slot of a
    /// Cluster.
    fn call<'a>(
        &self,
        script: &'a Script,
        operation: &str,
        name: &Name,
        not_after: i64,
    ) -> ScriptInvocation<'a> {
        let mut call = script.prepare_invoke();
        let key = self.key(name);
        call.key(&key).key(format!("{key}:history")).arg(operation).arg(not_after);
        call
    }

    /// An invocation with the keys of many leases.
    fn call_for_all<'a>(
        &self,
        script: &'a Script,
        operation: &str,
        names: impl Iterator<Item = &'a Name>,
        not_after: i64,
    ) -> ScriptInvocation<'a> {
        let mut call = script.prepare_invoke();
        for name in names {
            call.key(self.key(name));
        }
        call.arg(operation).arg(not_after);
        call
    }

    /// Takes the connection out: a call that is dropped or fails drops it too.
    async fn link(&mut self, doing: &'static str) -> Result<Link, StoreError> {
        match self.link.take() {
            Some(link) => Ok(link),
            None => {
                self.route.connect(self.limit).await.map_err(|error| StoreError::new(doing, error))
            }
        }
    }

    async fn run<T: FromRedisValue>(
        &mut self,
        doing: &'static str,
        call: ScriptInvocation<'_>,
    ) -> Result<T, StoreError> {
        let mut link = self.link(doing).await?;
        let answer = match &mut link {
            Link::One(connection) => call.invoke_async(connection).await,
            Link::Cluster(connection) => call.invoke_async(connection).await,
        };
        let answer = answer.map_err(|error| StoreError::new(doing, error))?;
        self.link = Some(link);
        Ok(answer)
    }

    async fn command<T: FromRedisValue>(
        &mut self,
        doing: &'static str,
        command: &redis::Cmd,
    ) -> Result<T, StoreError> {
        let mut link = self.link(doing).await?;
        let answer = match &mut link {
            Link::One(connection) => command.query_async(connection).await,
            Link::Cluster(connection) => command.query_async(connection).await,
        };
        let answer = answer.map_err(|error| StoreError::new(doing, error))?;
        self.link = Some(link);
        Ok(answer)
    }

    /// All at once where one script may touch all keys; one by one in a Cluster.
    fn batch(&self) -> usize {
        if self.route.is_cluster() { 1 } else { 100_000 }
    }
}

fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

fn misread(doing: &'static str) -> impl Fn(String) -> StoreError {
    move |what| StoreError::new(doing, what)
}

#[async_trait]
impl Store for RedisStore {
    async fn look(&mut self, names: &[Name]) -> Result<At<Vec<Look>>, StoreError> {
        let doing = "looking at leases";
        let script = self.script.clone();
        let (mut at, mut answer) = (0, Vec::with_capacity(names.len()));
        for some in names.chunks(self.batch()) {
            let call = self.call_for_all(&script, "look", some.iter(), 0);
            let (now, rows): (i64, Vec<Vec<String>>) = self.run(doing, call).await?;
            at = now;
            for row in rows {
                let lease = reading::lease(&row).map_err(misread(doing))?;
                answer.push((lease.map(|(_, lease)| lease), false));
            }
        }
        Ok(At { at: reading::time(at), answer })
    }

    async fn acquire(&mut self, request: &Acquire) -> Result<At<Acquired>, StoreError> {
        let doing = "acquiring a lease";
        let script = self.script.clone();
        let mut call = self.call(&script, "acquire", &request.name, request.not_after.as_micros());
        call.arg(request.name.as_str())
            .arg(request.holder.as_str())
            .arg(request.incarnation.to_string())
            .arg(request.priority.0)
            .arg(micros(request.ttl))
            .arg(request.above.number());
        match request.unchanged {
            None => call.arg(0).arg("").arg(0).arg(0),
            Some(version) => call
                .arg(1)
                .arg(version.incarnation.map_or(String::new(), |own: Incarnation| own.to_string()))
                .arg(version.term.number())
                .arg(version.beat),
        };
        let (at, (verdict, row)): (i64, (String, Vec<String>)) = self.run(doing, call).await?;
        let row = reading::lease(&row).map_err(misread(doing))?.map(|(_, row)| row);
        let answer = match (verdict.as_str(), row) {
            ("granted" | "created", Some(row)) => Acquired::Granted(row),
            ("too-late", _) => Acquired::TooLate,
            (_, row) => Acquired::Refused(row),
        };
        // Once per process would do, if nobody ever emptied the server.
        let granted = matches!(answer, Acquired::Granted(_));
        if granted && (verdict == "created" || !self.listed.contains(&request.name)) {
            let mut listed = redis::cmd("SADD");
            listed.arg(self.names_key()).arg(request.name.as_str());
            self.command::<i64>(doing, &listed).await?;
            self.listed.insert(request.name.clone());
        }
        Ok(At { at: reading::time(at), answer })
    }

    async fn renew(&mut self, request: &Renew) -> Result<At<Vec<Renewed>>, StoreError> {
        let doing = "renewing leases";
        let script = self.script.clone();
        let (mut at, mut answer) = (0, Vec::with_capacity(request.leases.len()));
        for some in request.leases.chunks(self.batch()) {
            let names = some.iter().map(|lease| &lease.name);
            let not_after = request.not_after.as_micros();
            let mut call = self.call_for_all(&script, "renew", names, not_after);
            call.arg(request.incarnation.to_string()).arg(request.beat);
            for lease in some {
                call.arg(lease.term.number()).arg(micros(lease.ttl));
            }
            let (now, told): (i64, Vec<Vec<String>>) = self.run(doing, call).await?;
            at = now;
            answer.extend(reading::renewed(&told, some.len()).map_err(misread(doing))?);
        }
        Ok(At { at: reading::time(at), answer })
    }

    async fn release(&mut self, request: &Release) -> Result<At<bool>, StoreError> {
        let script = self.script.clone();
        let successor = request.successor.as_ref();
        let mut call = self.call(&script, "release", &request.name, request.not_after.as_micros());
        call.arg(request.incarnation.to_string())
            .arg(request.term.number())
            .arg(successor.map_or("", |(holder, _)| holder.as_str()))
            .arg(successor.map_or(0, |(_, reserve)| micros(*reserve)))
            .arg(self.channel());
        let (at, done): (i64, i64) = self.run("releasing a lease", call).await?;
        Ok(At { at: reading::time(at), answer: done == 1 })
    }

    async fn ask(&mut self, request: &Ask) -> Result<At<bool>, StoreError> {
        let script = self.script.clone();
        let mut call = self.call(&script, "ask", &request.name, request.not_after.as_micros());
        call.arg(request.term.number())
            .arg(request.successor.as_ref().map_or("", Holder::as_str))
            .arg(request.over.map_or(String::new(), |priority| priority.0.to_string()))
            .arg(self.channel());
        let (at, done): (i64, i64) = self.run("asking a holder to step down", call).await?;
        Ok(At { at: reading::time(at), answer: done == 1 })
    }

    async fn force(&mut self, request: &Force) -> Result<At<Option<Term>>, StoreError> {
        let script = self.script.clone();
        let mut call = self.call(&script, "force", &request.name, 0);
        call.arg(request.note.as_str()).arg(self.channel());
        let (at, term): (i64, i64) = self.run("forcing a lease free", call).await?;
        Ok(At { at: reading::time(at), answer: (term > 0).then(|| Term::new(term)) })
    }

    async fn list(
        &mut self,
        after: Option<&Name>,
        limit: u32,
    ) -> Result<At<Vec<(Name, Row)>>, StoreError> {
        let doing = "listing leases";
        let mut members = redis::cmd("SMEMBERS");
        members.arg(self.names_key());
        let names: Vec<String> = self.command(doing, &members).await?;
        let mut names: Vec<Name> =
            names.into_iter().filter_map(|name| Name::new(name).ok()).collect();
        names.retain(|name| after.is_none_or(|after| name > after));
        names.sort();
        names.truncate(limit as usize);
        let looks = self.look(&names).await?;
        Ok(looks.map(|looks| {
            let rows = names.into_iter().zip(looks);
            rows.filter_map(|(name, (row, _))| Some((name, row?))).collect()
        }))
    }

    async fn history(
        &mut self,
        name: &Name,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Entry>, StoreError> {
        let doing = "reading the history of a lease";
        let mut range = redis::cmd("LRANGE");
        range.arg(format!("{}:history", self.key(name))).arg(0).arg(-1);
        let texts: Vec<String> = self.command(doing, &range).await?;
        let mut entries = Vec::new();
        for text in &texts {
            entries.extend(reading::entry(text).map_err(misread(doing))?);
        }
        entries.retain(|entry| before.is_none_or(|before| entry.id < before));
        entries.truncate(limit as usize);
        Ok(entries)
    }

    /// The history of a lease is also kept to its last thousand changes.
    async fn prune(&mut self, older_than: Duration) -> Result<u64, StoreError> {
        let doing = "pruning the history of leases";
        let script = self.script.clone();
        let At { at, answer } = self.list(None, 10_000).await?;
        let oldest = at.as_micros().saturating_sub(micros(older_than));
        let mut pruned = 0;
        for (name, _) in answer {
            let mut call = self.call(&script, "prune", &name, 0);
            call.arg(oldest);
            let (_, some): (i64, u64) = self.run(doing, call).await?;
            pruned += some;
        }
        Ok(pruned)
    }

    fn disconnect(&mut self) {
        self.link = None;
    }

    fn listener(&self) -> Option<Box<dyn Listener>> {
        let route = Route::parse(&self.address, self.limit).ok()?;
        Some(Box::new(listener::RedisListener::new(route, self.channel())))
    }
}
