//! The API under load: one domain read, domains added, challenges looked up.

use anyhow::Result;
use holdfast_testkit::Scratch;

use super::fleet::Fleet;
use crate::figures::Ground;
use crate::network::Network;
use crate::peer::{Load, Pace, wrk_with};
use crate::replica::TOKEN;
use crate::sample::Sample;
use crate::seed;
use crate::table::Table;

const LOAD: Load = Load { connections: 16, seconds: 4 };
const TOKEN_OF_CA: &str = "DGyRejmCefe7v4NfDGDKfA-bench-token-0123456789";

/// Every request is another domain; what is pointed nowhere stays in the DNS check, and costs the CA nothing.
const ADD: &str = r#"
math.randomseed(os.time())
local run, number = math.random(1000000000), 0
request = function()
  number = number + 1
  local body = '{"name": "p' .. run .. '-' .. number .. '.elsewhere.test"}'
  return wrk.format("POST", "/v1/domains", nil, body)
end
"#;

#[derive(Default)]
struct Row {
    rate: Sample,
    p99_ms: Sample,
}

pub(super) async fn measure(ground: &Ground) -> Result<String> {
    let network = Network::start(&ground.holdfast).await?;
    network.record("*.elsewhere.test", "NONE", "-").await?;
    let database = Fleet::postgres().await?;
    seed::challenge(&database.url(), TOKEN_OF_CA, "answer").await?;
    let mut fleet = Fleet::start(ground, &network, database, &["all"], 30, "").await?;
    fleet.provision(100).await?;
    let base = fleet.first()?.api().web().base().to_owned();
    let (bearer, json) =
        (format!("Authorization: Bearer {TOKEN}"), "Content-Type: application/json");
    let directory = Scratch::new()?;
    let script = directory.write("add.lua", ADD)?.display().to_string();
    let read = ["--header", &bearer];
    let add = ["--header", &bearer, "--header", json, "--script", &script];
    let asked: [(&str, String, &[&str]); 3] = [
        ("`GET /v1/domains/{name}`", format!("{base}/v1/domains/b1-n7.fleet.test"), &read),
        (
            "`GET /.well-known/acme-challenge/{token}`",
            format!("{base}/.well-known/acme-challenge/{TOKEN_OF_CA}"),
            &[],
        ),
        ("`POST /v1/domains`", base, &add),
    ];
    let mut rows = [(); 3].map(|()| Row::default());
    // One kind after the other: domains that were added are looked after, and that would be measured with the next kind.
    for ((title, url, options), row) in asked.iter().zip(&mut rows) {
        for number in 0..ground.runs {
            let Pace { rate, p99_ms } = wrk_with(url, LOAD, options).await?;
            ground.say(format!("run {}: {title} {rate:.0}/s, p99 {p99_ms:.1} ms", number + 1));
            row.rate.push(rate);
            row.p99_ms.push(p99_ms);
        }
    }
    let mut table = Table::new(&["one replica, PostgreSQL", "requests/s", "p99, ms"]);
    for ((title, ..), row) in asked.iter().zip(&rows) {
        table.row([(*title).to_owned(), row.rate.shown(0), row.p99_ms.shown(1)]);
    }
    Ok(format!(
        "**Requests**: `wrk` with {} connections for {} s, on the same cores; one kind after the other, and last the one whose domains \
         are then also checked in DNS, on the same cores too.\n\n{}",
        LOAD.connections,
        LOAD.seconds,
        table.markdown()
    ))
}
