//! `holdfast agent`: what looks after one edge.

mod hold;
mod target;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use holdfast_agent::{
    AgentConfig as Loop, HttpFeed, HttpFeedConfig, Recorder, run_agent, serve_status,
};
use holdfast_gateway::listener;
use holdfast_store::Secret;

use crate::{
    config::{AgentConfig, AgentSection},
    environment::Environment,
    failure::{Failure, chain},
    log, signals,
};

/// Run one edge agent.
#[derive(Debug, clap::Args)]
pub(crate) struct AgentArgs {
    /// The configuration: TOML or HCL, by its ending
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// Runs until it is told to end.
pub(crate) async fn run(args: AgentArgs, environment: &Environment) -> Result<(), Failure> {
    let config = AgentConfig::load(&args.config, environment)?;
    log::to_stderr(&config.log);
    let stop = signals::shutdown()?;
    let _hold = hold::take(&config.agent.data)?;
    let feed = HttpFeed::new(feed(&config)?).map_err(|error| Failure::usage(sentence(&error)))?;
    let target = target::make(&config).await?;
    let settings = Loop {
        revision_file: Some(config.agent.data.join("revision")),
        confirm_file: Some(config.agent.data.join("remove-unlisted")),
        kept_file: Some(config.agent.data.join("kept")),
        ..Loop::default()
    };
    let status = settings.status.clone();
    let served = match config.agent.listen {
        Some(address) => {
            let failed = |error| Failure::failed(sentence(&error));
            let tcp = listener::bind(address).await.map_err(failed)?;
            let recorder = Recorder::install(stop.clone())
                .map_err(|error| Failure::failed(sentence(&error)))?;
            Some(tokio::spawn(serve_status(tcp, status, recorder, stop.clone())))
        }
        None => None,
    };
    let AgentSection { name, mode, .. } = &config.agent;
    tracing::info!(%name, mode = mode.as_str(), "ready");
    run_agent(Arc::new(feed), target, settings, stop).await;
    if let Some(served) = served {
        served.await.ok();
    }
    tracing::info!("ended in order");
    Ok(())
}

fn feed(config: &AgentConfig) -> Result<HttpFeedConfig, Failure> {
    let agent = &config.agent;
    let parse = |url: &crate::config::WebUrl| {
        url.as_str().parse().map_err(|_| Failure::usage(format!("{url} is no URL.")))
    };
    let servers = agent.server.0.iter().map(parse).collect::<Result<_, _>>()?;
    let client = match (&agent.client_certificate, &agent.client_key) {
        (Some(chain), Some(key)) => {
            let chain = read("agent.client_certificate", chain)?;
            Some((chain, Secret::new(read("agent.client_key", key)?)))
        }
        _ => None,
    };
    let root = agent.root_certificate.as_deref();
    agent.token_file.as_deref().map_or(Ok(()), check_token)?;
    Ok(HttpFeedConfig {
        servers,
        edge: agent.name.clone(),
        group: agent.group.clone(),
        target: if config.haproxy.is_some() { "haproxy" } else { "files" }.to_owned(),
        mode: agent.mode.as_str().to_owned(),
        token_file: agent.token_file.clone(),
        root_pem: root.map(|path| read("agent.root_certificate", path)).transpose()?,
        client_pem: client,
        proxy: agent.proxy.as_ref().map(parse).transpose()?,
        allow_plaintext: agent.allow_plaintext,
    })
}

fn check_token(path: &Path) -> Result<(), Failure> {
    let text = read("agent.token_file", path)?;
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    if let (Some(token), None) = (words.next(), words.next())
        && token.iter().all(u8::is_ascii_graphic)
    {
        return Ok(());
    }
    let file = path.display();
    Err(Failure::usage(format!(
        "agent.token_file: {file} holds no token, or more than one; write what `holdfast token create --scope edge` prints."
    )))
}

fn read(key: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| {
        let shown = path.display();
        Failure::usage(format!("{key}: {shown} cannot be read ({error}); put the file there."))
    })
}

fn sentence(error: &(dyn std::error::Error + 'static)) -> String {
    format!("{}.", chain(error))
}
