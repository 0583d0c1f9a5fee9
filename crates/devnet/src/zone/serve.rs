//! The zone's sockets: UDP and TCP on one port.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Zone;
use super::answer::{Transport, answer};
use crate::Error;
use crate::faults::Faults;

/// How long a TCP connection may rest between questions.
const IDLE: Duration = Duration::from_secs(10);

/// How long a socket rests that fails.
const REST: Duration = Duration::from_millis(50);

/// How many TCP connections are served at once.
const CONNECTIONS: usize = 256;

/// How often a free port is looked for that is free for both transports.
const PORT_TRIES: usize = 16;

/// The zone's server.
pub(crate) struct ZoneServer {
    udp: Arc<UdpSocket>,
    tcp: TcpListener,
}

impl ZoneServer {
    /// Opens both sockets on one port; port 0 is any.
    pub(crate) async fn bind(address: SocketAddr) -> Result<Self, Error> {
        let mut last = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..PORT_TRIES {
            match open(address).await {
                Ok((udp, tcp)) => return Ok(Self { udp: Arc::new(udp), tcp }),
                Err(error) => last = error,
            }
            if address.port() != 0 {
                break;
            }
        }
        Err(Error::Dns { address, source: last })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.udp.local_addr()
    }

    /// Serves until told to stop.
    pub(crate) async fn serve(self, zone: Zone, faults: Faults, stop: CancellationToken) {
        let datagrams = serve_udp(self.udp, zone.clone(), faults.clone());
        let connections = serve_tcp(self.tcp, zone, faults);
        tokio::select! {
            () = stop.cancelled() => {}
            () = datagrams => {}
            () = connections => {}
        }
    }
}

async fn open(address: SocketAddr) -> io::Result<(UdpSocket, TcpListener)> {
    let udp = UdpSocket::bind(address).await?;
    let tcp = TcpListener::bind(udp.local_addr()?).await?;
    Ok((udp, tcp))
}

impl Zone {
    fn answer(&self, faults: &Faults, request: &[u8], transport: Transport) -> Option<Vec<u8>> {
        answer(&self.records(), faults, request, transport)
    }
}

async fn serve_udp(socket: Arc<UdpSocket>, zone: Zone, faults: Faults) {
    let mut buffer = vec![0; usize::from(u16::MAX)];
    loop {
        let Ok((length, peer)) = socket.recv_from(&mut buffer).await else {
            // Most errors are another's, told to this socket; a rest keeps a lasting one from spinning.
            tokio::time::sleep(REST).await;
            continue;
        };
        let request = buffer.get(..length).unwrap_or_default();
        if let Some(reply) = zone.answer(&faults, request, Transport::Udp) {
            // A client that is gone needs no answer.
            socket.send_to(&reply, peer).await.ok();
        }
    }
}

async fn serve_tcp(listener: TcpListener, zone: Zone, faults: Faults) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (zone, faults) = (zone.clone(), faults.clone());
                connections.spawn(async move {
                    serve_connection(stream, zone, faults).await.ok();
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "development DNS: connections cannot be accepted now");
                tokio::time::sleep(REST).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(mut stream: TcpStream, zone: Zone, faults: Faults) -> io::Result<()> {
    loop {
        let request = tokio::time::timeout(IDLE, read_message(&mut stream)).await??;
        let Some(reply) = zone.answer(&faults, &request, Transport::Tcp) else { continue };
        let length = u16::try_from(reply.len()).unwrap_or(u16::MAX);
        let mut framed = length.to_be_bytes().to_vec();
        framed.extend_from_slice(&reply);
        stream.write_all(&framed).await?;
    }
}

async fn read_message(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut message = vec![0; usize::from(length)];
    stream.read_exact(&mut message).await?;
    Ok(message)
}
