//! nginx that serves one name with a certificate and a key from files.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::port::free_port;
use crate::process::Process;
use crate::scratch::Scratch;

/// A running nginx; dropping it stops it.
pub struct Nginx {
    directory: Scratch,
    https: SocketAddr,
    process: Option<Process>,
}

impl Drop for Nginx {
    fn drop(&mut self) {
        if let Some(process) = &self.process {
            process.end();
        }
    }
}

impl Nginx {
    /// A directory and a port; nothing runs yet.
    pub fn prepare() -> Result<Self> {
        let https = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
        let directory = Scratch::new()?;
        std::fs::create_dir(directory.path().join("certs"))?;
        Ok(Self { directory, https, process: None })
    }

    /// Where certificates lie.
    pub fn certificates(&self) -> PathBuf {
        self.directory.path().join("certs")
    }

    /// Where it serves.
    pub fn https(&self) -> SocketAddr {
        self.https
    }

    /// Its process, while it runs.
    pub fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    /// Writes its configuration: a block for each of these names, whose files `NAME.crt` and `NAME.key` must be there.
    pub fn configure(&self, names: &[&str]) -> Result<()> {
        let certs = self.certificates();
        let server = |name: &&str| {
            let file = |ending: &str| certs.join(format!("{name}.{ending}")).display().to_string();
            format!(
                "server {{ listen {} ssl; server_name {name}; ssl_certificate {}; ssl_certificate_key {}; return 200 nginx; }}\n",
                self.https,
                file("crt"),
                file("key")
            )
        };
        self.write(&names.iter().map(server).collect::<String>())
    }

    fn write(&self, servers: &str) -> Result<()> {
        let config = format!(
            "daemon off; pid nginx.pid; error_log stderr; worker_processes 1; user root; events {{}}\n\
             http {{ access_log off; client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4; scgi_temp_path t5;\n{servers}}}\n"
        );
        self.directory.write("nginx.conf", config)?;
        Ok(())
    }

    /// Starts it for these names, whose files must be there, and waits until it listens.
    pub async fn start(&mut self, names: &[&str]) -> Result<()> {
        self.configure(names)?;
        self.launch().await
    }

    /// Starts it with one block for all names, whose files it looks for at each handshake.
    pub async fn start_by_name(&mut self) -> Result<()> {
        let (https, certs) = (self.https, self.certificates());
        let certs = certs.display();
        self.write(&format!(
            "server {{ listen {https} ssl default_server; ssl_certificate {certs}/$ssl_server_name.crt; ssl_certificate_key {certs}/$ssl_server_name.key; return 200 nginx; }}\n"
        ))?;
        self.launch().await
    }

    async fn launch(&mut self) -> Result<()> {
        let (program, arguments) = self.command(&[]);
        let process = Process::spawn("nginx", Command::new(program).args(arguments))?;
        let https = self.https;
        crate::eventually(Duration::from_secs(30), "nginx to listen", async || {
            tokio::net::TcpStream::connect(https).await.map(drop)
        })
        .await;
        self.process = Some(process);
        Ok(())
    }

    /// Ends it, with its workers.
    pub async fn stop(&mut self) -> Result<()> {
        if let Some(process) = self.process.take() {
            process.terminate(Duration::from_secs(30)).await?;
        }
        Ok(())
    }

    /// The command that makes it read its files again, program first.
    pub fn reload_command(&self) -> Vec<String> {
        let (program, mut arguments) = self.command(&["-s", "reload"]);
        arguments.insert(0, program);
        arguments
    }

    fn command(&self, more: &[&str]) -> (String, Vec<String>) {
        let program =
            ["/usr/sbin/nginx", "/usr/bin/nginx"].iter().find(|path| Path::new(path).exists());
        let program = (*program.unwrap_or(&"nginx")).to_owned();
        let prefix = format!("{}/", self.directory.path().display());
        let mut arguments = vec!["-p".to_owned(), prefix, "-c".to_owned(), "nginx.conf".to_owned()];
        arguments.extend(more.iter().map(|&word| word.to_owned()));
        (program, arguments)
    }
}
