{{/* A pod of one role: {root, role, workload}. */}}
{{- define "holdfast.pod" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $role := .role -}}
serviceAccountName: {{ include "holdfast.serviceAccount" $root }}
automountServiceAccountToken: false
# A Service of this name would put HOLDFAST_… variables into the pods.
enableServiceLinks: false
terminationGracePeriodSeconds: {{ include "holdfast.graceSeconds" $root }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- with $values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  {{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - topologyKey: {{ $key }}
    maxSkew: 1
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "holdfast.selector" $root | nindent 8 }}
        app.kubernetes.io/component: {{ $role }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
containers:
  - name: holdfast
    {{- include "holdfast.container" . | nindent 4 }}
volumes:
  {{- include "holdfast.volumes" $root | nindent 2 }}
{{- end -}}

{{- define "holdfast.container" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
image: {{ include "holdfast.image" $root | quote }}
imagePullPolicy: {{ $values.image.pullPolicy }}
args: [server, --config, /etc/holdfast/holdfast.toml, --role, {{ .role }}]
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
env:
  {{- include "holdfast.env" $root | nindent 2 }}
ports:
  - name: api
    containerPort: 8600
startupProbe:
  {{- include "holdfast.probe" (dict "root" $root "path" "startup") | nindent 2 }}
  # A migration of a large database may take its time.
  periodSeconds: 2
  failureThreshold: 300
livenessProbe:
  {{- include "holdfast.probe" (dict "root" $root "path" "live") | nindent 2 }}
  periodSeconds: 10
  failureThreshold: 3
readinessProbe:
  {{- include "holdfast.probe" (dict "root" $root "path" "ready") | nindent 2 }}
  periodSeconds: 5
  failureThreshold: 2
lifecycle:
  preStop:
    sleep:
      seconds: {{ include "holdfast.preStopSeconds" $root }}
resources:
  {{- toYaml .workload.resources | nindent 2 }}
volumeMounts:
  {{- include "holdfast.mounts" $root | nindent 2 }}
{{- end -}}

{{/* One probe: {root, path}. Ready asks the database, which gets three seconds. */}}
{{- define "holdfast.probe" -}}
httpGet:
  path: /health/{{ .path }}
  port: api
  scheme: {{ include "holdfast.scheme" .root | upper }}
timeoutSeconds: 5
{{- end -}}

{{- define "holdfast.env" -}}
- name: POD_NAME
  valueFrom:
    fieldRef: {fieldPath: metadata.name}
- name: POD_IP
  valueFrom:
    fieldRef: {fieldPath: status.podIP}
- name: HOLDFAST__SERVER__URL
  value: {{ include "holdfast.replicaUrl" . | quote }}
- name: HOLDFAST__DATABASE__URL
  {{- include "holdfast.fromSecret" (list (required "database.existingSecret is not set: name the Secret that holds the database's URL" .Values.database.existingSecret) .Values.database.key) | nindent 2 }}
{{- if .Values.redis.existingSecret }}
- name: HOLDFAST__COORDINATION__URL
  {{- include "holdfast.fromSecret" (list .Values.redis.existingSecret .Values.redis.key) | nindent 2 }}
{{- end }}
{{- with .Values.externalAccount }}
{{- if .existingSecret }}
- name: HOLDFAST__ACME__EAB_KEY_ID
  {{- include "holdfast.fromSecret" (list .existingSecret .keyIdKey) | nindent 2 }}
- name: HOLDFAST__ACME__EAB_HMAC_KEY
  {{- include "holdfast.fromSecret" (list .existingSecret .hmacKeyKey) | nindent 2 }}
{{- end }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "holdfast.fromSecret" -}}
valueFrom:
  secretKeyRef:
    name: {{ index . 0 }}
    key: {{ index . 1 }}
{{- end -}}

{{- define "holdfast.mounts" -}}
- name: config
  mountPath: /etc/holdfast
  readOnly: true
- name: master-key
  mountPath: /run/holdfast/master-key
  readOnly: true
- name: admin-token
  mountPath: /run/holdfast/admin-token
  readOnly: true
{{- if .Values.tls.existingSecret }}
- name: tls
  mountPath: /run/holdfast/tls
  readOnly: true
{{- end }}
{{- range $name, $root := dict "acme-root" .Values.acmeRoot "acme-issuer-roots" .Values.acmeIssuerRoots "redis-root" .Values.redisRoot }}
{{- if $root.existingConfigMap }}
- name: {{ $name }}
  mountPath: /run/holdfast/{{ $name }}
  readOnly: true
{{- end }}
{{- end }}
{{- end -}}

{{- define "holdfast.volumes" -}}
- name: config
  configMap:
    name: {{ include "holdfast.name" . }}
- name: master-key
  secret:
    secretName: {{ required "masterKey.existingSecret is not set: name the Secret that holds the master key" .Values.masterKey.existingSecret }}
    defaultMode: 0440
    items:
      - key: {{ .Values.masterKey.key }}
        path: master.key
- name: admin-token
  secret:
    secretName: {{ required "adminToken.existingSecret is not set: name the Secret that holds the first admin token" .Values.adminToken.existingSecret }}
    defaultMode: 0440
    items:
      - key: {{ .Values.adminToken.key }}
        path: admin.token
{{- with .Values.tls.existingSecret }}
- name: tls
  secret:
    secretName: {{ . }}
    defaultMode: 0440
{{- end }}
{{- range $name, $root := dict "acme-root" .Values.acmeRoot "acme-issuer-roots" .Values.acmeIssuerRoots "redis-root" .Values.redisRoot }}
{{- if $root.existingConfigMap }}
- name: {{ $name }}
  configMap:
    name: {{ $root.existingConfigMap }}
    items:
      - key: {{ $root.key }}
        path: ca.pem
{{- end }}
{{- end }}
{{- end -}}
