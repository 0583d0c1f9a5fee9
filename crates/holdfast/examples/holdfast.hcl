# The same as holdfast.toml, in HCL: one block per section, and env("NAME") where a value is not for a file.
server {
  listen        = "127.0.0.1:8600"
  url           = "http://127.0.0.1:8600" # how replicas and agents reach this one
  role          = "all"
  writes        = "any" # any | forward | redirect | reject
  drain_seconds = 10
  # tls_certificate, tls_key, client_ca
}

database {
  url = "postgres://holdfast@127.0.0.1:5432/holdfast" # or sqlite:holdfast.db
  # Several hosts, of which the one that takes writes is used: postgres://holdfast@db1.internal:5432,db2.internal:5432/holdfast
}

coordination {
  backend                  = "database" # database | redis
  resource_name            = "holdfast"
  lease_duration_seconds   = 30
  renewal_interval_seconds = 10 # lease < 3 × renewal is refused
  key_prefix               = "holdfast:leader:"
  enable_detailed_logging  = false
}

replicas {
  heartbeat_seconds = 10
  stale_seconds     = 30
  prune_seconds     = 300
}

acme {
  directory             = "https://127.0.0.1:14000/dir"
  root_certificate      = "ca.pem" # an extra root for the CA's own TLS; relative to this file
  email                 = "ops@example.com"
  agree_terms           = true
  max_new_orders_per_3h = 300
  max_orders_in_flight  = 64
  key_type              = "ecdsa-p256" # or rsa-2048
  # profile, eab_key_id, eab_hmac_key = env("EAB_HMAC_KEY")
}

dns {
  targets       = ["edge.example.net"] # the first is told to new customers
  addresses     = []                   # what an apex may point to
  unique_target = false
  resolvers     = ["127.0.0.1:8053"] # absent: the system's
}

provisioning {
  claim_seconds       = 30
  concurrency         = 64
  dns_attempts        = 5
  dns_timeout_seconds = 600
}

renewal {
  before_days   = 30 # for 90-day certificates; others in proportion, ARI first
  sweep_seconds = 300
}

retention {
  history_days = 400 # transitions of domains
  removed_days = 400 # removed domains, with their history
}

edge {
  mode = "none" # agents | builtin | none
  # http, https, redirect_port, upstream, name, group, pull: docs/edge.md
}

security {
  master_key_file = "master.key" # or master_key = env("HOLDFAST_MASTER_KEY") (base64, 32 bytes)
  # admin_token, admin_token_file, allow_plaintext
}

log {
  level  = "info"
  format = "text" # or json
}
