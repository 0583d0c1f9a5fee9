//! Challenge answers: requests per second under wrk, beside nginx with a file of the same size.

use anyhow::Result;

use super::Ground;
use super::site::{Backend, Database};
use crate::network::Network;
use crate::peer::{Load, Nginx, wrk};
use crate::replica::{EdgeMode, Plan, Replica};
use crate::sample::Sample;
use crate::seed;
use crate::table::Table;

const LOAD: Load = Load { connections: 64, seconds: 4 };

/// As long as the CA's own.
const TOKEN: &str = "DGyRejmCefe7v4NfDGDKfA-bench-token-0123456789";
const ANSWER: &str =
    "DGyRejmCefe7v4NfDGDKfA-bench-token-0123456789.LoqXcYV8q5ONbJQxbmR7SCTNo3tiAXDfowyjxAjEuX0";

struct Contender {
    title: String,
    url: String,
    rate: Sample,
    of_nginx: Sample,
}

pub(super) async fn measure(ground: &Ground) -> Result<String> {
    let path = format!("/.well-known/acme-challenge/{TOKEN}");
    let network = Network::start(&ground.holdfast).await?;
    let nginx = Nginx::serve(&path, ANSWER).await?;
    let mut contenders = vec![contender("nginx, a file of the same size", &nginx.url(), &path)];
    // Each keeps its database and its process until the end.
    let mut running = Vec::new();
    for backend in Backend::BOTH {
        let database = Database::start(backend).await?;
        seed::challenge(&database.url(), TOKEN, ANSWER).await?;
        let address = backend.address(EdgeMode::Builtin);
        let target = network.lead(&format!("answers{address}.test"), address).await?;
        let plan = Plan::new(address, &database.url(), &target, EdgeMode::Builtin)?;
        let replica = Replica::start(&ground.holdfast, &network, &plan).await?;
        let title = |of: &str| format!("Holdfast, {}, {of}", backend.title());
        contenders.push(contender(&title("API"), replica.api().web().base(), &path));
        let edge = format!("http://{address}:{}", network.http_port());
        contenders.push(contender(&title("built-in edge"), &edge, &path));
        running.push((replica, database));
    }
    rounds(ground, &mut contenders).await?;
    let mut table = Table::new(&["", "requests/s", "of nginx"]);
    for contender in &contenders {
        table.row([contender.title.clone(), contender.rate.shown(0), contender.of_nginx.shown(2)]);
    }
    Ok(format!(
        "`wrk` with {} connections for {} s, on the same cores as what it asks; median (lowest–highest) of {} interleaved runs. \
         Holdfast answers from its database, so that any replica knows what any other ordered.\n\n{}",
        LOAD.connections,
        LOAD.seconds,
        ground.runs,
        table.markdown()
    ))
}

fn contender(title: &str, base: &str, path: &str) -> Contender {
    Contender {
        title: title.to_owned(),
        url: format!("{base}{path}"),
        rate: Sample::default(),
        of_nginx: Sample::default(),
    }
}

async fn rounds(ground: &Ground, contenders: &mut [Contender]) -> Result<()> {
    for number in 0..ground.runs {
        let mut of_nginx = None;
        for contender in contenders.iter_mut() {
            let rate = wrk(&contender.url, LOAD).await?;
            ground.say(format!("round {}: {:<32} {rate:.0}/s", number + 1, contender.title));
            contender.rate.push(rate);
            contender.of_nginx.push(rate / *of_nginx.get_or_insert(rate));
        }
    }
    Ok(())
}
