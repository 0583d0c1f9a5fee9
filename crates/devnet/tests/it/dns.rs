//! The zone, asked with raw messages over UDP and TCP.

use std::net::SocketAddr;
use std::time::Duration;

use hickory_proto::op::{Edns, Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, RecordType};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

use crate::world::World;

fn question(name: &str, kind: RecordType) -> Message {
    let mut message = Message::new(7, MessageType::Query, OpCode::Query);
    message.metadata.recursion_desired = true;
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    message
}

async fn exchange(server: SocketAddr, bytes: &[u8]) -> Option<Message> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(bytes, server).await.unwrap();
    let mut buffer = [0; 4096];
    let received = tokio::time::timeout(Duration::from_millis(500), socket.recv(&mut buffer)).await;
    Some(Message::from_vec(&buffer[..received.ok()?.unwrap()]).unwrap())
}

async fn ask(world: &World, message: &Message) -> Message {
    let reply = exchange(world.net.dns_address(), &message.to_vec().unwrap()).await.unwrap();
    assert_eq!((reply.metadata.id, reply.metadata.message_type), (7, MessageType::Response));
    reply
}

async fn ask_tcp(world: &World, messages: &[Message]) -> Vec<Message> {
    let mut stream = TcpStream::connect(world.net.dns_address()).await.unwrap();
    let mut replies = Vec::new();
    for message in messages {
        let bytes = message.to_vec().unwrap();
        stream.write_u16(bytes.len().try_into().unwrap()).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        let mut reply = vec![0; stream.read_u16().await.unwrap().into()];
        stream.read_exact(&mut reply).await.unwrap();
        replies.push(Message::from_vec(&reply).unwrap());
    }
    replies
}

fn answers(reply: &Message) -> Vec<String> {
    let answers = reply.answers.iter();
    answers.map(|one| format!("{} {} {}", one.name, one.record_type(), one.data)).collect()
}

#[tokio::test]
async fn the_chain_to_the_edge_is_in_the_answer() {
    let world = World::start().await;
    let reply = ask(&world, &question("Shop.TEST.", RecordType::A)).await;
    let edge = "edge.holdfast.test. A 127.0.0.1";
    assert_eq!(answers(&reply), ["Shop.TEST. CNAME edge.holdfast.test.", edge]);
    assert!(reply.metadata.authoritative && !reply.metadata.recursion_available);
    assert!(reply.answers.iter().all(|record| record.ttl == 0));
    let reply = ask(&world, &question("edge.holdfast.test.", RecordType::A)).await;
    assert_eq!(answers(&reply), [edge]);
    let alias = ask(&world, &question("shop.test.", RecordType::CNAME)).await;
    assert_eq!(answers(&alias), ["shop.test. CNAME edge.holdfast.test."]);
}

#[tokio::test]
async fn what_is_set_is_answered() {
    let world = World::start().await;
    let zone = world.net.zone();
    zone.set("a.test", "A", "127.0.0.2").unwrap();
    zone.set("a.test", "A", "127.0.0.3").unwrap();
    zone.set("a.test", "TXT", &"x".repeat(300)).unwrap();
    zone.set("b.test", "CNAME", "a.test").unwrap();
    let reply = ask(&world, &question("b.test.", RecordType::A)).await;
    assert_eq!(
        answers(&reply),
        ["b.test. CNAME a.test.", "a.test. A 127.0.0.2", "a.test. A 127.0.0.3"]
    );
    let text = ask(&world, &question("a.test.", RecordType::TXT)).await;
    assert!(answers(&text)[0].matches('x').count() == 300, "{:?}", answers(&text));
    zone.clear("a.test").unwrap();
    let reply = ask(&world, &question("a.test.", RecordType::A)).await;
    assert_eq!(reply.answers.len(), 2);
}

#[tokio::test]
async fn negative_answers_carry_the_soa() {
    let world = World::start().await;
    world.net.zone().set("gone.test", "NONE", "-").unwrap();
    world.net.zone().set("leads.test", "CNAME", "gone.test").unwrap();
    let cases = [
        ("shop.test.", RecordType::MX, ResponseCode::NoError, 1),
        ("gone.test.", RecordType::A, ResponseCode::NXDomain, 0),
        ("www.gone.test.", RecordType::A, ResponseCode::NXDomain, 0),
        ("leads.test.", RecordType::A, ResponseCode::NXDomain, 1),
        ("test.", RecordType::A, ResponseCode::NoError, 0),
    ];
    for (name, kind, code, answers) in cases {
        let reply = ask(&world, &question(name, kind)).await;
        assert_eq!((reply.metadata.response_code, reply.answers.len()), (code, answers), "{name}");
        let authority = &reply.authorities[0];
        assert_eq!(
            (authority.record_type(), authority.name.to_ascii()),
            (RecordType::SOA, "test.".to_owned())
        );
    }
    let soa = ask(&world, &question("test.", RecordType::SOA)).await;
    assert_eq!(soa.answers.len(), 1);
}

#[tokio::test]
async fn loops_and_exits_end_the_chain() {
    let world = World::start().await;
    let zone = world.net.zone();
    zone.set("one.test", "CNAME", "two.test").unwrap();
    zone.set("two.test", "CNAME", "one.test").unwrap();
    zone.set("out.test", "CNAME", "shop.example").unwrap();
    let reply = ask(&world, &question("one.test.", RecordType::A)).await;
    assert_eq!(answers(&reply), ["one.test. CNAME two.test.", "two.test. CNAME one.test."]);
    let reply = ask(&world, &question("out.test.", RecordType::A)).await;
    assert_eq!(answers(&reply), ["out.test. CNAME shop.example."]);
    assert_eq!(reply.metadata.response_code, ResponseCode::NoError);
    zone.set("shop.example", "A", "127.0.0.5").unwrap();
    let reply = ask(&world, &question("out.test.", RecordType::A)).await;
    assert_eq!(answers(&reply)[1], "shop.example. A 127.0.0.5");
}

#[tokio::test]
async fn what_it_does_not_serve_is_refused() {
    let world = World::start().await;
    let foreign = ask(&world, &question("shop.example.", RecordType::A)).await;
    assert_eq!(foreign.metadata.response_code, ResponseCode::Refused);
    assert!(!foreign.metadata.authoritative);
    let transfer = ask(&world, &question("test.", RecordType::AXFR)).await;
    assert_eq!(transfer.metadata.response_code, ResponseCode::Refused);
    let mut chaos = question("shop.test.", RecordType::A);
    chaos.queries[0].set_query_class(DNSClass::CH);
    assert_eq!(ask(&world, &chaos).await.metadata.response_code, ResponseCode::Refused);
    let mut update = question("shop.test.", RecordType::A);
    update.metadata.op_code = OpCode::Status;
    assert_eq!(ask(&world, &update).await.metadata.response_code, ResponseCode::NotImp);
    let mut two = question("a.test.", RecordType::A);
    two.add_query(Query::query(Name::from_ascii("b.test.").unwrap(), RecordType::A));
    assert_eq!(ask(&world, &two).await.metadata.response_code, ResponseCode::FormErr);
    let broken = [0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 63];
    let reply = exchange(world.net.dns_address(), &broken).await.unwrap();
    assert_eq!((reply.metadata.id, reply.metadata.response_code), (7, ResponseCode::FormErr));
    let response = Message::response(7, OpCode::Query).to_vec().unwrap();
    assert!(exchange(world.net.dns_address(), &response).await.is_none());
    assert!(exchange(world.net.dns_address(), b"short").await.is_none());
}

#[tokio::test]
async fn long_answers_are_cut_on_udp_and_whole_on_tcp() {
    let world = World::start().await;
    for number in 0..40 {
        world.net.zone().set("long.test", "TXT", &format!("{number:0>40}")).unwrap();
    }
    let plain = question("long.test.", RecordType::TXT);
    let cut = ask(&world, &plain).await;
    assert!(cut.metadata.truncation);
    let mut extended = plain.clone();
    let mut edns = Edns::new();
    edns.set_max_payload(4096);
    extended.set_edns(edns);
    let reply = ask(&world, &extended).await;
    assert!(reply.metadata.truncation);
    assert_eq!(reply.edns.as_ref().unwrap().max_payload(), 1232);
    let whole = ask_tcp(&world, &[plain.clone(), plain]).await;
    for reply in whole {
        assert_eq!((reply.metadata.truncation, reply.answers.len()), (false, 40));
    }
}

#[tokio::test]
async fn a_newer_edns_is_told_so() {
    let world = World::start().await;
    let mut message = question("shop.test.", RecordType::A);
    let mut edns = Edns::new();
    edns.set_version(1);
    message.set_edns(edns);
    let reply = ask(&world, &message).await;
    // The library knows the number by its other name.
    assert_eq!(u16::from(reply.metadata.response_code), 16);
    assert_eq!(reply.edns.unwrap().version(), 0);
}

#[tokio::test]
async fn faults_strike_the_names_they_are_for() {
    let world = World::start().await;
    let faults = world.net.faults();
    faults.set("dns-servfail", "broken.test", None).unwrap();
    faults.set("dns-timeout", "silent.test", None).unwrap();
    faults.set("dns-wrong", "*.wrong.test", None).unwrap();
    let broken = ask(&world, &question("broken.test.", RecordType::A)).await;
    assert_eq!(broken.metadata.response_code, ResponseCode::ServFail);
    let silent = question("silent.test.", RecordType::A).to_vec().unwrap();
    assert!(exchange(world.net.dns_address(), &silent).await.is_none());
    let wrong = ask(&world, &question("a.wrong.test.", RecordType::A)).await;
    assert_eq!(answers(&wrong), ["a.wrong.test. A 192.0.2.1"]);
    let fine = ask(&world, &question("fine.test.", RecordType::A)).await;
    assert_eq!(fine.answers.len(), 2);
}

#[tokio::test]
async fn dig_can_read_it() {
    let world = World::start().await;
    let address = world.net.dns_address();
    let dig = tokio::process::Command::new("dig")
        .args([
            &format!("@{}", address.ip()),
            "-p",
            &address.port().to_string(),
            "+short",
            "shop.test",
            "A",
        ])
        .output();
    let output = String::from_utf8(dig.await.unwrap().stdout).unwrap();
    assert_eq!(output, "edge.holdfast.test.\n127.0.0.1\n");
}
