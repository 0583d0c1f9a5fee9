//! Starts children from a thread that lives as long as the process.
//!
//! The kernel's "kill me when my parent dies" means the *thread* that started the child. Threads of tests and
//! of runtimes come and go, and would take a shared server with them.

use std::io;
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;

struct Order {
    command: Command,
    reply: Sender<io::Result<Child>>,
}

/// Starts a command whose process gets SIGKILL, or the signal given, when this process ends.
pub(crate) fn spawn(command: Command) -> io::Result<Child> {
    let (reply, started) = channel();
    let gone = || io::Error::other("the thread that starts processes has ended");
    orders().send(Order { command, reply }).map_err(|_| gone())?;
    started.recv().map_err(|_| gone())?
}

fn orders() -> &'static Sender<Order> {
    static ORDERS: OnceLock<Sender<Order>> = OnceLock::new();
    ORDERS.get_or_init(|| {
        let (sender, orders) = channel::<Order>();
        thread::spawn(move || {
            for mut order in orders {
                // Nobody waits for the reply any more: dropping the child leaves it to the kernel's signal.
                order.reply.send(order.command.spawn()).ok();
            }
        });
        sender
    })
}

/// Wraps a command so that its process gets `signal` when this process ends, and optionally runs as another user.
pub(crate) fn bound_to_us(command: &Command, signal: &str, user: Option<&str>) -> Command {
    let mut wrapped = Command::new("setpriv");
    wrapped.args(["--pdeathsig", signal]);
    if let Some(user) = user {
        wrapped.args(["--reuid", user, "--regid", user, "--clear-groups"]);
    }
    wrapped.arg("--").arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        wrapped.current_dir(directory);
    }
    wrapped
}
