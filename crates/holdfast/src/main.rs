//! The one program: control plane, client and development network, chosen by the first word.

mod config;
mod environment;

fn main() {
    let environment = environment::Environment::read();
    if let Err(error) = config::Config::load(std::path::Path::new("holdfast.toml"), &environment) {
        eprintln!("{error}");
    }
}
