{{/* Names, labels, and what more than one manifest needs. */}}

{{- define "holdfast.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "holdfast.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "holdfast.labels" -}}
{{ include "holdfast.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "holdfast.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "holdfast.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "holdfast.image" -}}
{{- $repository := required "image.repository is not set: build deploy/docker/Dockerfile, push it to your registry and name it" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* The workloads there are, as a list of role names. */}}
{{- define "holdfast.workloads" -}}
{{- if eq .Values.roles "all" -}}["all"]{{- else -}}["api","worker"]{{- end -}}
{{- end -}}

{{/* Who takes requests of clients. */}}
{{- define "holdfast.front" -}}
{{- if eq .Values.roles "all" -}}all{{- else -}}api{{- end -}}
{{- end -}}

{{- define "holdfast.scheme" -}}
{{- if .Values.tls.existingSecret -}}https{{- else -}}http{{- end -}}
{{- end -}}

{{/*
The seconds before the signal in which endpoints forget the pod, and the seconds after which it is killed: those, the drain, twenty that a
replica may take to end after it, and ten to spare.
*/}}
{{- define "holdfast.preStopSeconds" -}}5{{- end -}}
{{- define "holdfast.graceSeconds" -}}
{{- add (include "holdfast.preStopSeconds" . | int) (int .Values.drainSeconds) 20 10 -}}
{{- end -}}

{{- define "holdfast.replicaUrl" -}}
{{- $address := ternary "[$(POD_IP)]" "$(POD_IP)" .Values.ipv6 -}}
{{- default (printf "%s://%s:8600" (include "holdfast.scheme" .) $address) .Values.replicaUrl -}}
{{- end -}}

{{/*
holdfast.toml. JSON's texts, numbers, booleans and lists are TOML's as well; toToml would write whole numbers as fractions.
*/}}
{{- define "holdfast.config" -}}
{{- include "holdfast.refuse" . -}}
{{- $own := dict
    "server" (dict "listen" (ternary "[::]:8600" "0.0.0.0:8600" .Values.ipv6) "drain_seconds" .Values.drainSeconds)
    "security" (dict "master_key_file" "/run/holdfast/master-key/master.key" "admin_token_file" "/run/holdfast/admin-token/admin.token")
-}}
{{- if .Values.tls.existingSecret -}}
{{- $_ := merge $own.server (dict "tls_certificate" "/run/holdfast/tls/tls.crt" "tls_key" "/run/holdfast/tls/tls.key") -}}
{{- with .Values.tls.caKey -}}
{{- $_ := set $own.server "root_certificate" (printf "/run/holdfast/tls/%s" .) -}}
{{- end -}}
{{- end -}}
{{- $acme := dict -}}
{{- if .Values.acmeRoot.existingConfigMap -}}
{{- $_ := set $acme "root_certificate" "/run/holdfast/acme-root/ca.pem" -}}
{{- end -}}
{{- if .Values.acmeIssuerRoots.existingConfigMap -}}
{{- $_ := set $acme "issuer_roots" "/run/holdfast/acme-issuer-roots/ca.pem" -}}
{{- end -}}
{{- if $acme -}}
{{- $_ := set $own "acme" $acme -}}
{{- end -}}
{{- if .Values.redisRoot.existingConfigMap -}}
{{- $_ := set $own "coordination" (dict "root_certificate" "/run/holdfast/redis-root/ca.pem") -}}
{{- end -}}
{{- $sections := mergeOverwrite (deepCopy .Values.config) $own -}}
{{- range $section := keys $sections | sortAlpha }}
[{{ $section }}]
{{- $keys := get $sections $section -}}
{{- range $key := keys $keys | sortAlpha }}
{{ $key }} = {{ get $keys $key | toJson }}
{{- end }}
{{ end -}}
{{- end -}}

{{/* What no schema can say. */}}
{{- define "holdfast.refuse" -}}
{{- $config := .Values.config -}}
{{- if not $config.dns.targets -}}
{{- fail "config.dns.targets is empty: name what customers point their CNAME to, such as edge.example.net" -}}
{{- end -}}
{{- if not $config.acme.agree_terms -}}
{{- fail "config.acme.agree_terms is false: read the CA's terms, then set it to true" -}}
{{- end -}}
{{- if not $config.acme.email -}}
{{- fail "config.acme.email is empty: name an address the CA may write to" -}}
{{- end -}}
{{- $coordination := default dict $config.coordination -}}
{{- $redis := eq (default "database" $coordination.backend) "redis" -}}
{{- if and $redis (not .Values.redis.existingSecret) -}}
{{- fail "config.coordination.backend is redis, but redis.existingSecret names no Secret with its URL" -}}
{{- end -}}
{{- if and (not $redis) .Values.redis.existingSecret -}}
{{- fail "redis.existingSecret is set, but config.coordination.backend is not redis" -}}
{{- end -}}
{{- if and (not $redis) .Values.redisRoot.existingConfigMap -}}
{{- fail "redisRoot.existingConfigMap is set, but config.coordination.backend is not redis" -}}
{{- end -}}
{{- $writes := default "any" (default dict $config.server).writes -}}
{{- if and .Values.tls.existingSecret (ne $writes "any") (not .Values.replicaUrl) -}}
{{- fail "config.server.writes sends requests from replica to replica, and no certificate is valid for a pod's address: set replicaUrl, or leave tls.existingSecret to a proxy" -}}
{{- end -}}
{{- $trusted := or (hasPrefix "https://" (include "holdfast.replicaUrl" .)) (default dict $config.security).allow_plaintext -}}
{{- if and (eq $writes "forward") (not $trusted) -}}
{{- fail "config.server.writes is forward, and tokens are not passed on over plain HTTP: set config.security.allow_plaintext where the pods' network is trusted, or tls.existingSecret and replicaUrl" -}}
{{- end -}}
{{- if and .Values.networkPolicy.enabled (not .Values.networkPolicy.from) -}}
{{- fail "networkPolicy.from is empty: nobody but the replicas themselves could connect, not even the CA's challenges" -}}
{{- end -}}
{{- end -}}
