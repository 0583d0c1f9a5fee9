//! A listening socket and those who came in through it. Nobody comes in without a seat.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::EdgeLimits;
use super::pulse::Pulse;
use super::quiet::Quiet;
use super::seats::{Seat, Seats};

/// How long accepting rests when the system is out of descriptors or memory.
const REST: Duration = Duration::from_millis(200);

static OUT_OF_ORDER: Quiet = Quiet::new();

/// Who came in.
#[derive(Clone)]
pub(super) struct Guest {
    pub(super) peer: SocketAddr,
    pub(super) seat: Arc<Seat>,
    pub(super) pulse: Arc<Pulse>,
    pub(super) limits: Arc<EdgeLimits>,
    pub(super) stop: CancellationToken,
}

/// Takes care of connections.
pub(super) trait Host: Send + Sync + 'static {
    /// Serves a connection to its end. It must end soon after the guest's `stop`.
    fn welcome(self: Arc<Self>, tcp: TcpStream, guest: Guest) -> impl Future<Output = ()> + Send;
}

pub(super) struct Door {
    tcp: TcpListener,
    seats: Arc<Seats>,
    limits: Arc<EdgeLimits>,
    stop: CancellationToken,
}

impl Door {
    /// A door; `port` names it in the metrics.
    pub(super) fn new(
        tcp: TcpListener,
        port: &'static str,
        limits: Arc<EdgeLimits>,
        stop: CancellationToken,
    ) -> Self {
        let seats = Seats::new(limits.connections, port);
        Self { tcp, seats, limits, stop }
    }

    /// Lets connections in until it is stopped, then waits for the last to end.
    pub(super) async fn run(self, host: Arc<impl Host>) {
        let (stop, drain) = (self.stop.clone(), self.limits.drain);
        let mut guests = JoinSet::new();
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.admit(host, &mut guests) => {}
        }
        let seats = self.seats.clone();
        drop(self);
        // Tunnels keep their seats beyond their connections.
        let leave = async {
            while guests.join_next().await.is_some() {}
            seats.all_free().await;
        };
        // A little longer than the guests are given themselves.
        if tokio::time::timeout(drain + Duration::from_secs(1), leave).await.is_err() {
            tracing::warn!(left = guests.len(), "connections were cut off at the end");
        }
        guests.shutdown().await;
    }

    async fn admit(&self, host: Arc<impl Host>, guests: &mut JoinSet<()>) {
        while let Some(seat) = self.seats.take().await {
            let (tcp, peer) = self.next().await;
            // Failing only costs latency.
            tcp.set_nodelay(true).ok();
            let guest = Guest {
                peer,
                seat: Arc::new(seat),
                pulse: Pulse::new(),
                limits: self.limits.clone(),
                stop: self.stop.clone(),
            };
            guests.spawn(host.clone().welcome(tcp, guest));
            while let Some(ended) = guests.try_join_next() {
                note_panic(ended);
            }
        }
    }

    async fn next(&self) -> (TcpStream, SocketAddr) {
        loop {
            match self.tcp.accept().await {
                Ok(accepted) => return accepted,
                Err(error) if concerns_one_connection(&error) => {}
                Err(error) => {
                    if let Some(count) = OUT_OF_ORDER.may_speak() {
                        tracing::error!(%error, count, "connections cannot be accepted now");
                    }
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }
}

fn concerns_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

fn note_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection broke down");
    }
}
