"""Kubernetes kinds whose objects are in no namespace. Nothing is imported here: `record.py` loads it by path, too."""

CLUSTER_WIDE = (
    "APIService", "CSIDriver", "CSINode", "CertificateSigningRequest", "ClusterRole", "ClusterRoleBinding", "ComponentStatus",
    "CustomResourceDefinition", "DeviceClass", "FlowSchema", "GPU", "GPUNode", "GPUPool", "IngressClass",
    "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration", "Namespace", "Node",
    "PersistentVolume", "PriorityClass", "PriorityLevelConfiguration", "ResourceSlice", "RuntimeClass", "StorageClass",
    "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration", "VolumeAttachment",
)  # fmt: skip
