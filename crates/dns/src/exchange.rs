//! One question to one server: over UDP, and over TCP where the answer does not fit.
//!
//! Every question has a socket and a random id of its own, so no other name's silence can hold it up, and nobody off the path can
//! answer for the server. How long to wait is the caller's business: without an answer the exchange goes on until it is dropped.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

use crate::End;
use crate::question::{Heard, Question};
use crate::reply::Reply;

/// Longest datagram read. We announce no EDNS, so an honest one has 512 bytes at most.
const DATAGRAM: usize = 4096;

/// Asks this server, over UDP once more after `again` and once more after twice that. `misled` is called for each datagram that answers another question.
pub(crate) async fn ask(
    server: SocketAddr,
    question: &Question,
    again: Duration,
    misled: &(dyn Fn() + Sync),
) -> Reply {
    match over_udp(server, question, again, misled).await {
        Ok(Heard::Answer(reply)) => reply,
        Ok(Heard::Truncated) => over_tcp(server, question).await.unwrap_or(UNREADABLE),
        Ok(Heard::Strange | Heard::Garbage) => UNREADABLE,
        Err(_) => Reply::Nothing(End::ResolverUnreachable),
    }
}

const UNREADABLE: Reply = Reply::Nothing(End::Unreadable);

async fn over_udp(
    server: SocketAddr,
    question: &Question,
    again: Duration,
    misled: &(dyn Fn() + Sync),
) -> io::Result<Heard> {
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    // Datagrams of anybody else are dropped by the kernel from here on.
    socket.connect(server).await?;
    // A datagram is lost easily, the first ones most of all where many are sent in one moment.
    for wait in [again, again * 2] {
        socket.send(question.bytes()).await?;
        if let Ok(heard) = tokio::time::timeout(wait, hear(&socket, question, misled)).await {
            return heard;
        }
    }
    socket.send(question.bytes()).await?;
    hear(&socket, question, misled).await
}

async fn hear(
    socket: &UdpSocket,
    question: &Question,
    misled: &(dyn Fn() + Sync),
) -> io::Result<Heard> {
    let mut buffer = [0; DATAGRAM];
    loop {
        let length = socket.recv(&mut buffer).await?;
        match question.heard(buffer.get(..length).unwrap_or_default()) {
            // The right answer may still come.
            Heard::Strange => misled(),
            heard => return Ok(heard),
        }
    }
}

/// Over a connection of its own, which is closed afterwards.
async fn over_tcp(server: SocketAddr, question: &Question) -> io::Result<Reply> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.bytes().len()).map_err(io::Error::other)?;
    let mut framed = length.to_be_bytes().to_vec();
    framed.extend_from_slice(question.bytes());
    stream.write_all(&framed).await?;
    let length = stream.read_u16().await?;
    let mut answer = vec![0; length.into()];
    stream.read_exact(&mut answer).await?;
    match question.heard(&answer) {
        Heard::Answer(reply) => Ok(reply),
        Heard::Truncated | Heard::Strange | Heard::Garbage => Ok(UNREADABLE),
    }
}
